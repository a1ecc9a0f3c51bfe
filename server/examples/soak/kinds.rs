//! The kinds of clients: what each does to the server, and what it may expect.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::json;
use socket2::SockRef;

use crate::{
    client::{Outcome, Reply, ask, connect, get_request, leave, post, read, read_slowly},
    pool::{Ask, Pool, Random},
};

/// Time after which the server may give up an answer that is not streamed, to a client that closed its half.
const GRACE: Duration = Duration::from_secs(1);
/// Connections of a burst.
const BURST: usize = 200;

/// Where and what is asked.
pub(crate) struct World {
    pub(crate) address: String,
    pub(crate) pool: Pool,
}

/// Does one thing; what came out has a name, and what must not be is an error.
pub(crate) type Client = fn(&World, &mut Random) -> Outcome<&'static str>;

/// Clients of which the crowd draws, and how often.
pub(crate) const CROWD: [(&str, usize, Client); 7] = [
    ("whole", 30, whole),
    ("streamed", 30, streamed),
    ("kept alive", 10, kept_alive),
    ("half-open", 12, half_open),
    ("leaves", 12, leaves),
    ("too big", 1, too_big),
    ("wrong", 5, wrong),
];

/// Clients that take their time, which the crowd must not wait for.
pub(crate) const PATIENT: [(&str, Client); 6] = [
    ("slow reader", slow),
    ("slow reader", slow),
    ("half a request", half_a_request),
    ("half a request", half_a_request),
    ("half a request, and gone", half_and_gone),
    ("burst", burst),
];

pub(crate) fn whole(world: &World, random: &mut Random) -> Outcome<&'static str> {
    let wanted = world.pool.draw(random);
    wanted.check(&ask(&world.address, wanted.path, &wanted.body(false, random))?, false)
}

fn streamed(world: &World, random: &mut Random) -> Outcome<&'static str> {
    let wanted = world.pool.draw(random);
    wanted.check(&ask(&world.address, wanted.path, &wanted.body(true, random))?, true)
}

/// Two requests at once on one connection.
fn kept_alive(world: &World, random: &mut Random) -> Outcome<&'static str> {
    let [one, two] = [world.pool.draw(random), world.pool.draw(random)];
    let streamed = random.chance(50);
    let mut stream = connect(&world.address)?;
    let requests = post(one.path, &one.body(streamed, random), true)
        + &post(two.path, &two.body(!streamed, random), false);
    stream.write_all(requests.as_bytes())?;
    let bytes = read(&mut stream)?;
    let (first, rest) = Reply::first(&bytes)?;
    one.check(&first, streamed)?;
    two.check(&Reply::only(rest)?, !streamed)
}

/// Sends a request and returns the connection.
fn open(world: &World, wanted: &Ask, streamed: bool, random: &mut Random) -> Outcome<TcpStream> {
    let mut stream = connect(&world.address)?;
    stream.write_all(post(wanted.path, &wanted.body(streamed, random), false).as_bytes())?;
    Ok(stream)
}

/// Closes its half behind the request, and is answered all the same.
fn half_open(world: &World, random: &mut Random) -> Outcome<&'static str> {
    let (wanted, streamed) = (world.pool.draw(random), random.chance(60));
    let mut stream = open(world, wanted, streamed, random)?;
    stream.shutdown(Shutdown::Write)?;
    let start = Instant::now();
    let reply = Reply::only(&read(&mut stream)?)?;
    // Without a stream the server cannot tell this client from one that has gone.
    let given_up = reply.status == 500 && reply.body.contains("the client has gone");
    if given_up && !streamed && start.elapsed() >= GRACE {
        return Ok("given up after 1 s");
    }
    wanted.check(&reply, streamed)
}

/// Goes in the middle, at any time.
fn leaves(world: &World, random: &mut Random) -> Outcome<&'static str> {
    let wanted = world.pool.draw_long(random);
    let (streamed, reset) = (random.chance(75), random.chance(50));
    let mut stream = open(world, wanted, streamed, random)?;
    if streamed {
        // Some go before the first byte.
        let mut part = vec![0; random.below(4000)];
        let _ = stream.read(&mut part)?;
    }
    sleep(Duration::from_millis(random.below(60) as u64));
    leave(stream, reset)?;
    Ok(if reset { "reset" } else { "closed" })
}

/// More than the bounds of the server's defaults allow.
fn too_big(world: &World, random: &mut Random) -> Outcome<&'static str> {
    let body = "x".repeat((16 << 20) + 1);
    let mut stream = connect(&world.address)?;
    let head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let (request, expected, name) = match random.below(4) {
        0 => (post("/v1/completions", &body, false), 413, "413, announced and sent"),
        1 => (format!("{head}Content-Length: 99999999\r\n\r\n{{"), 413, "413, announced and not sent"),
        2 => {
            let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
            (format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}"), 413, "413, not announced")
        }
        // The bound of a head is one of what is read before its end is seen: a head that is little longer may pass.
        _ => (format!("{head}X: {}\r\n\r\n", &body[..400_000]), 431, "431, the head"),
    };
    // The server may have answered and closed before all is sent.
    let _ = stream.write_all(request.as_bytes());
    // Otherwise the server takes in for a while what is announced to it.
    let _ = stream.shutdown(Shutdown::Write);
    expect(&Reply::only(&read(&mut stream)?)?, expected, name)
}

/// Requests that are refused by their content.
fn wrong(world: &World, random: &mut Random) -> Outcome<&'static str> {
    let bodies = [
        "{\"prompt\": ".to_owned(),
        json!({"prompt": "a", "max_tokens": 0}).to_string(),
        json!({"prompt": "a", "n": 2}).to_string(),
        json!({"prompt": "a", "temperature": -1, "stream": true}).to_string(),
        json!({"prompt": "a", "stop": ""}).to_string(),
        json!({"prompt": "many words ".repeat(9000)}).to_string(),
    ];
    expect(&ask(&world.address, "/v1/completions", random.one::<String>(&bodies))?, 400, "400")
}

fn expect(reply: &Reply, status: u16, name: &'static str) -> Outcome<&'static str> {
    if reply.status == status {
        Ok(name)
    } else {
        Err(format!("{status} was expected, not {reply:?}").into())
    }
}

/// Reads a little at a time through a small window, so that the server has to wait.
fn slow(world: &World, random: &mut Random) -> Outcome<&'static str> {
    let wanted = world.pool.draw_long(random);
    let mut stream = connect(&world.address)?;
    SockRef::from(&stream).set_recv_buffer_size(4096)?;
    stream.write_all(post(wanted.path, &wanted.body(true, random), false).as_bytes())?;
    let pause = Duration::from_millis(random.below(40) as u64);
    let bytes = read_slowly(&mut stream, 256 + random.below(2000), pause)?;
    wanted.check(&Reply::only(&bytes)?, true)
}

/// Never sends the rest of its head or its body.
fn half_a_request(world: &World, random: &mut Random) -> Outcome<&'static str> {
    let request = post("/v1/completions", &json!({"prompt": "a"}).to_string(), false);
    let body = random.chance(50);
    let part = if body { &request[..request.len() - 5] } else { &request[..request.len() / 2] };
    let mut stream = connect(&world.address)?;
    stream.write_all(part.as_bytes())?;
    let reply = Reply::only(&read(&mut stream)?)?;
    expect(&reply, 408, if body { "408, the body" } else { "408, the head" })
}

/// The same, and goes before the server gives it up.
fn half_and_gone(world: &World, random: &mut Random) -> Outcome<&'static str> {
    let request = post("/v1/completions", &json!({"prompt": "a"}).to_string(), false);
    let mut stream = connect(&world.address)?;
    stream.write_all(&request.as_bytes()[..random.below(request.len())])?;
    sleep(Duration::from_millis(random.below(3000) as u64));
    leave(stream, random.chance(50))?;
    Ok("gone")
}

/// Many connections at once, that say nothing, ask for the server's health, or ask for more than the queue holds.
fn burst(world: &World, random: &mut Random) -> Outcome<&'static str> {
    sleep(Duration::from_millis(random.below(20_000) as u64));
    let mut streams = (0..BURST).map(|_| connect(&world.address)).collect::<Outcome<Vec<_>>>()?;
    match random.below(3) {
        0 => {
            sleep(Duration::from_millis(random.below(2000) as u64));
            Ok("said nothing")
        }
        1 => {
            for stream in &mut streams {
                stream.write_all(get_request("/health").as_bytes())?;
            }
            for stream in &mut streams {
                expect(&Reply::only(&read(stream)?)?, 200, "health")?;
            }
            Ok("200 times health")
        }
        _ => flood(world, random, streams),
    }
}

/// A request on every connection. Some are told to come again.
fn flood(world: &World, random: &mut Random, streams: Vec<TcpStream>) -> Outcome<&'static str> {
    let mut asked = Vec::new();
    for mut stream in streams {
        let (wanted, streamed) = (world.pool.draw(random), random.chance(50));
        stream.write_all(post(wanted.path, &wanted.body(streamed, random), false).as_bytes())?;
        asked.push((stream, wanted, streamed));
    }
    let mut refused = 0;
    for (mut stream, wanted, streamed) in asked {
        let outcome = wanted.check(&Reply::only(&read(&mut stream)?)?, streamed)?;
        refused += usize::from(outcome == "429");
    }
    Ok(if refused > 0 { "200 requests, some told 429" } else { "200 requests, all answered" })
}
