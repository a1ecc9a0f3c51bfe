//! The chat page in a browser, where Chromium and its driver are installed.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    client::Open,
    started::{Served, Setup},
};

/// How WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser behind its driver.
struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
}

impl Browser {
    /// A browser of this size; `None` where there is no browser.
    fn start(width: u32, dark: bool) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let found =
            Command::new("chromium").arg("--version").output().is_ok_and(|output| output.status.success());
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(driver) = driver else { return None };
        let mut browser =
            Self { driver, address: SocketAddr::from(([127, 0, 0, 1], port)), session: String::new() };
        if !found {
            return None;
        }
        let start = Instant::now();
        while TcpStream::connect(browser.address).is_err() {
            assert!(start.elapsed() < Duration::from_secs(30), "the driver does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut args = vec![
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-background-networking".to_owned(),
            format!("--window-size={width},900"),
        ];
        if dark {
            args.push("--force-dark-mode".to_owned());
        }
        let options = json!({"args": args, "mobileEmulation": if width < 500 {
            json!({"deviceMetrics": {"width": width, "height": 800, "pixelRatio": 1.0}})
        } else {
            Value::Null
        }});
        let mut options = options;
        if options["mobileEmulation"].is_null() {
            options.as_object_mut().unwrap().remove("mobileEmulation");
        }
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}});
        let session = browser.call("POST", "/session", &wanted);
        session["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        Some(browser)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let bytes = if method == "POST" { body.to_string() } else { String::new() };
        let reply = Open::send(self.address, method, path, &[], bytes.as_bytes()).reply();
        assert_eq!(reply.status, 200, "{method} {path}: {}", reply.body);
        reply.json()["value"].take()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}{path}", self.session), body)
    }

    fn element(&self, selector: &str) -> String {
        let found = self.post("/element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    fn click(&self, selector: &str) {
        self.post(&format!("/element/{}/click", self.element(selector)), &json!({}));
    }

    fn write(&self, selector: &str, text: &str) {
        self.post(&format!("/element/{}/value", self.element(selector)), &json!({"text": text}));
    }

    /// The value of an expression of the page.
    fn value(&self, expression: &str) -> Value {
        self.post("/execute/sync", &json!({"script": format!("return {expression}"), "args": []}))
    }

    fn wait_until(&self, expression: &str) {
        let start = Instant::now();
        while self.value(expression) != true {
            let page = self.value("document.body.innerText");
            assert!(start.elapsed() < Duration::from_secs(30), "{expression} does not come: {page}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Keeps a picture where a variable names a folder for them.
    fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("MLXCEL_PICTURES") else { return };
        let picture = self.call("GET", &format!("/session/{}/screenshot", self.session), &json!({}));
        let file = std::path::Path::new(&folder).join(format!("{name}.png.base64"));
        std::fs::write(file, picture.as_str().unwrap()).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let path = format!("/session/{}", self.session);
            let _ = Open::send(self.address, "DELETE", &path, &[], b"").reply();
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn open(served: &Served, width: u32, dark: bool) -> Option<Browser> {
    let browser = Browser::start(width, dark);
    if let Some(browser) = &browser {
        browser.post("/url", &json!({"url": format!("http://{}/", served.address)}));
        browser.wait_until("document.getElementById('model').textContent.includes('demo')");
    } else {
        eprintln!("chat page in a browser: not run, there is no chromium with chromedriver");
    }
    browser
}

const ANSWERED: &str = "document.querySelectorAll('.turn.assistant .note').length";

#[test]
fn a_conversation() {
    let served = Served::start(Setup::default());
    let Some(browser) = open(&served, 1200, false) else { return };
    let outside =
        "performance.getEntriesByType('resource').filter(r => !r.name.startsWith(location.origin)).length";
    assert_eq!(browser.value(outside), 0);
    browser.write("#text", "What is a hash table?\u{E007}");
    browser.wait_until(&format!("{ANSWERED} === 1"));
    let text = browser.value("document.querySelector('.turn.assistant span').textContent");
    let expected = served.chat("What is a hash table?", json!({"max_tokens": 256})).content();
    assert_eq!(text, expected);
    assert_eq!(browser.value("document.querySelectorAll('#rounds u.yes').length > 3"), true);
    assert_eq!(browser.value("document.querySelectorAll('#positions meter').length"), 7);
    assert_eq!(browser.value("Number(document.getElementById('speed').textContent) > 0"), true);
    browser.picture("conversation");

    // The same answer without speculation.
    browser.click("#clear");
    browser.click("#speculate");
    browser.write("#text", "What is a hash table?");
    browser.click("#send");
    browser.wait_until(&format!("{ANSWERED} === 1"));
    assert_eq!(browser.value("document.querySelector('.turn.assistant span').textContent"), expected);
    let decline = browser.value("document.getElementById('decline').textContent");
    assert_eq!(decline, "No speculation: speculation is switched off");
    // Settings are kept.
    browser.post("/refresh", &json!({}));
    assert_eq!(browser.value("document.getElementById('speculate').checked"), false);
}

#[test]
fn an_answer_is_stopped_and_an_error_is_shown() {
    let served = Served::start(Setup::default());
    let Some(browser) = open(&served, 1200, true) else { return };
    assert_eq!(browser.value("matchMedia('(prefers-color-scheme: dark)').matches"), true);
    // A class, so that the answer does not end by itself too soon.
    browser.value(
        "(() => { document.getElementById('max_tokens').value = 3900; window.before = JSON.stringify; \
        JSON.stringify = v => before(v && v.messages ? {...v, ignore_eos: true} : v); return 1 })()",
    );
    browser.write("#text", "Tell me a long story.\u{E007}");
    browser.wait_until("document.querySelectorAll('#rounds i').length > 5");
    browser.picture("dark-streaming");
    browser.click("#stop");
    browser.wait_until(&format!("{ANSWERED} === 1"));
    assert_eq!(browser.value("document.querySelector('.turn.assistant .note').textContent"), "stopped");
    served.wait_until_idle();

    browser.value("(() => { document.getElementById('temperature').value = -1; return 1 })()");
    browser.write("#text", "Hi\u{E007}");
    browser.wait_until("document.querySelectorAll('.turn.error').length === 1");
    let error = browser.value("document.querySelector('.turn.error .note').textContent");
    assert!(error.as_str().unwrap().starts_with("temperature: -1 is out of range"), "{error}");
    browser.picture("dark-error");
}

#[test]
fn a_narrow_screen() {
    let served = Served::start(Setup::default());
    let Some(browser) = open(&served, 380, false) else { return };
    let fits = "document.documentElement.scrollWidth <= 380 && innerWidth === 380";
    assert_eq!(browser.value(fits), true);
    browser.write("#text", "Hi\u{E007}");
    browser.wait_until(&format!("{ANSWERED} === 1"));
    browser.picture("narrow");
    browser.click("#panel");
    assert_eq!(browser.value("getComputedStyle(document.querySelector('aside')).display"), "flex");
    assert_eq!(browser.value(fits), true);
    browser.picture("narrow-panel");
}
