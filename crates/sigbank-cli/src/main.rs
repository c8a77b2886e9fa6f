//! The `sigbank` program.

fn main() {
    std::process::exit(sigbank_cli::run(std::env::args_os()));
}
