// The command `quern`: options, and exceptions turned into exit statuses.

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <limits>
#include <new>

#include "commands.h"
#include "files.h"
#include "progress.h"

#ifndef QUERN_VERSION
#define QUERN_VERSION "0.1.0"
#endif

namespace {

using namespace quern::command;

constexpr int kWrongUse = 2;

/// An option that may be given many times and takes one text each time.
void add_repeated(CLI::App* command, const std::string& name, std::vector<std::string>& values,
                  const std::string& form, std::string (*fault)(const std::string&),
                  const std::string& help) {
    CLI::Option* const option = command->add_option(name, values, help);
    option->allow_extra_args(false)->take_all()->type_name("")->option_text(form);
    if (fault != nullptr) option->check(CLI::Validator(fault, ""));
}

void add_inputs(CLI::App* command, RunArguments& arguments) {
    command->add_option("FILE", arguments.file, "A script")->required()->type_name("");
    add_repeated(command, "--in", arguments.in, "NAME=PATH", fault_in_file,
                 "Bind an input to a .npy or .png file, or to the set of tensors of a .npz or "
                 ".safetensors file");
    add_repeated(command, "--arg", arguments.arg, "NAME=VALUE", fault_in_number,
                 "Bind a name to a number, true or false");
    command->add_option("--device", arguments.device, "Where kernels run that name no device")
        ->type_name("")
        ->option_text("ID");
    command->add_option("--numerics", arguments.numerics, "strict, reproducible or fast")
        ->check(CLI::IsMember({"strict", "reproducible", "fast"}))
        ->type_name("")
        ->option_text("MODE");
}

/// How the kernels of a command run.
void add_running(CLI::App* command, RunArguments& arguments) {
    add_repeated(command, "--kernels", arguments.kernels, "PATH", nullptr,
                 "Take code from a file that bake wrote; may be repeated");
    command->add_option("--threads", arguments.threads, "Threads of kernels; 0: one a core")
        ->check(CLI::Range(0, std::numeric_limits<int>::max()))
        ->type_name("")
        ->option_text("N");
}

/// The flags that go to the reporter and to checks.
struct Flags {
    bool json = false;
    bool pedantic = false;
};

void add_flags(CLI::App* command, Flags& flags) {
    command->add_flag("--json", flags.json, "Write diagnostics as JSON on standard output");
    command->add_flag("--pedantic", flags.pedantic,
                      "Refuse what older texts are allowed with a warning");
}

/// As CLI11 says it, and which word is none where a subcommand is expected.
std::string failure(const CLI::App* app, const CLI::Error& error) {
    std::string message = CLI::FailureMessage::simple(app, error);
    const std::vector<std::string> words = app->remaining();
    if (!words.empty() && app->get_subcommands().empty()) {
        message = "expected a subcommand, got '" + words.front() + "'\n" + message;
    }
    return message;
}

/// Whether standard output took everything; a full disk would otherwise be seen by nobody.
bool has_written_all() {
    errno = 0;
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
    // Of an earlier write the reason is gone.
    std::fprintf(stderr, "quern: error: expected to write standard output, got: %s\n",
                 std::strerror(errno != 0 ? errno : EIO));
    return false;
}

int report(Reporter& reporter, const std::function<void()>& work) {
    const auto before = quern::set_warning_handler(
        [&](const quern::Diagnostic& diagnostic) { reporter.add(diagnostic); });
    try {
        work();
    } catch (const quern::KernelError& error) {
        reporter.add(error.diagnostics());
    } catch (const std::bad_alloc&) {
        reporter.add_error("out of memory");
    } catch (const std::exception& error) {
        reporter.add_error(error.what());
    }
    clear_progress();
    quern::set_warning_handler(before);
    int status = reporter.finish();
    if (!has_written_all() && status == 0) status = 1;
    // What was waiting for the files to be whole or gone ends the process now, as it would have
    // before: the shell sees the signal.
    if (const int signal = interrupting_signal()) {
        std::fflush(nullptr);
        std::signal(signal, SIG_DFL);
        std::raise(signal);
    }
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Runs, checks and explains scripts in Quern's kernel language.", "quern");
    app.set_version_flag("--version", "quern " QUERN_VERSION);
    app.require_subcommand(1);
    app.failure_message(failure);
    app.footer("Example: quern run matmul.quern --in A=a.npy --in B=b.npy --out C=c.npy");

    RunArguments arguments;
    Flags flags;
    std::vector<std::string> files;

    CLI::App* const run_command = app.add_subcommand("run", "Run a script");
    add_inputs(run_command, arguments);
    add_running(run_command, arguments);
    add_repeated(run_command, "--out", arguments.out, "NAME=PATH", fault_in_file,
                 "Write a top-level result to a file; without it results are printed");
    add_flags(run_command, flags);
    run_command->add_flag("--explain", arguments.explain, "Explain each kernel before it runs");
    run_command->footer(
        "Every --out file is written when the script has ended, and none after an error.\n"
        "Example: quern run layer_norm.quern --in x=x.npy --in gamma=g.npy --in beta=b.npy "
        "--arg eps=1e-5 --out normalized=y.npy");

    CLI::App* const check_command =
        app.add_subcommand("check", "Report what scripts show without operands");
    check_command->add_option("FILE", files, "Scripts")->required()->type_name("");
    add_flags(check_command, flags);
    check_command->footer("Example: quern check --json softmax.quern");

    CLI::App* const bench_command = app.add_subcommand(
        "bench", "Time each kernel of a script beside what the machine's memory and units allow");
    add_inputs(bench_command, arguments);
    add_running(bench_command, arguments);
    add_flags(bench_command, flags);
    bench_command->footer(
        "Each launch is repeated for 0.3 s; the least time counts. The bound is that of a plain "
        "copy\n"
        "or of multiply-adds that wait for nothing, whichever takes longer, measured in the same "
        "run.\n"
        "Example: quern bench matmul.quern --in A=a.npy --in B=b.npy");

    constexpr const char* kShapeForm = "NAME=DTYPE[EXTENTS]";
    constexpr const char* kShapeHelp =
        "Bind an input, or a key of a set as in model.weight=f32[2,3], to zeros of a dtype and "
        "shape; no kernel runs";
    CLI::App* const bake_command = app.add_subcommand(
        "bake", "Compile the kernels of a script into a file that runs without the compiler");
    add_inputs(bake_command, arguments);
    add_repeated(bake_command, "--shape", arguments.shape, kShapeForm, fault_in_shape, kShapeHelp);
    bake_command->add_option("--out", arguments.bundle, "The file")
        ->required()
        ->type_name("")
        ->option_text("PATH");
    add_repeated(bake_command, "--cpu", arguments.instructions, "NAME", nullptr,
                 "For which processors, as QUERN_CPU says them; may be repeated; else all of this "
                 "architecture");
    add_flags(bake_command, flags);
    bake_command->footer(
        "There is code for these shapes, and code for any others of the same dtypes and ranks.\n"
        "Programs read the file with load_kernels(), `quern run` with --kernels.\n"
        "Example: quern bake matmul.quern --shape A=f32[64,32] --shape B=f32[32,8] "
        "--out matmul.kernels");

    CLI::App* const explain_command = app.add_subcommand(
        "explain", "Say where dimensions come from, what runs in parallel, bytes and operations");
    add_inputs(explain_command, arguments);
    add_running(explain_command, arguments);
    add_repeated(explain_command, "--shape", arguments.shape, kShapeForm, fault_in_shape,
                 kShapeHelp);
    explain_command->add_flag("--measure", arguments.measure,
                              "Run the kernels on --in, and say how long they take and what the "
                              "machine allows");
    add_flags(explain_command, flags);
    explain_command->footer(
        "Without an input it says what the text alone tells.\n"
        "Example: quern explain matmul.quern --shape A=f32[64,32] --shape B=f32[32,8]");

    CLI::App* const devices_command = app.add_subcommand("devices", "List the devices");
    devices_command->add_flag("--json", flags.json, "Write the list as JSON");
    devices_command->footer("Example: quern devices --json");

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (app.exit(error) != 0) return kWrongUse;
        std::cout.flush();
        return has_written_all() ? 0 : 1;
    }

    arguments.pedantic = flags.pedantic;
    Reporter reporter({.json = flags.json, .notes = check_command->parsed()});
    if (devices_command->parsed()) {
        Reporter text({});
        return report(text, [&] { list_devices(flags.json); });
    }
    return report(reporter, [&] {
        if (run_command->parsed()) run(arguments, reporter);
        if (explain_command->parsed()) explain(arguments, reporter);
        if (bench_command->parsed()) bench(arguments, reporter);
        if (bake_command->parsed()) bake(arguments, reporter);
        if (check_command->parsed()) check(files, flags.pedantic, reporter);
    });
}
