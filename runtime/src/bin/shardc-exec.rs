//! `shardc-exec`: runs a plan's directory on CPU ranks.

fn main() -> std::process::ExitCode {
    shardc_runtime::front::exec::main()
}
