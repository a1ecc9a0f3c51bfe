use my_family as _;

fn main() -> std::process::ExitCode {
    mlxcel::main()
}
