//! The program. All of it is in the library, so that another program can link families of its own.

fn main() -> std::process::ExitCode {
    mlxcel::main()
}
