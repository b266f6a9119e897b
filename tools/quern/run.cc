// `quern run`, `explain`, `bench` and `bake`: bind inputs, run, write or print.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "commands.h"
#include "files.h"
#include "progress.h"
#include "quern/frontend/explain.h"
#include "quern/kernel_bundle.h"
#include "quern/lang/parse.h"
#include "quern/runtime/bounds.h"
#include "quern/script/script.h"
#include "quern/threads.h"

namespace quern::command {
namespace {

struct Loaded {
    std::shared_ptr<const lang::Source> source;
    script::Signature signature;
};

Loaded load_script(const RunArguments& arguments) {
    std::string text = read_script(arguments.file);
    lang::Diagnostics diagnostics(text, arguments.file);
    lang::ParseOptions options;
    options.file = arguments.file;
    options.pedantic = arguments.pedantic;
    Loaded loaded;
    loaded.source = lang::parse(std::move(text), options, diagnostics);
    if (!diagnostics.has_errors()) loaded.signature = script::check(*loaded.source, diagnostics);
    diagnostics.raise();
    return loaded;
}

std::vector<std::string> names_of(const std::vector<script::FreeName>& free_names) {
    std::vector<std::string> names;
    for (const script::FreeName& name : free_names) names.push_back(name.name);
    return names;
}

/// Throws unless `name` is one of those that the option may give.
void expect_name(const std::string& option, const std::string& what, const std::string& name,
                 const std::vector<std::string>& known) {
    if (std::find(known.begin(), known.end(), name) != known.end()) return;
    std::string list;
    for (const std::string& candidate : known) list += (list.empty() ? "" : ", ") + candidate;
    std::string message = fmt::format("[{}] expected the name of {}, got '{}'", option, what, name);
    message += list.empty() ? "; the script has none" : "; the script has " + list;
    for (const std::string& near : lang::nearest(name, known)) {
        message += fmt::format("; did you mean '{}'?", near);
    }
    throw ValueError(message);
}

script::Bindings bindings_of(const RunArguments& arguments, const script::Signature& signature) {
    std::vector<std::string> inputs = names_of(signature.inputs);
    for (const script::FreeName& parameter : signature.parameters) inputs.push_back(parameter.name);
    std::vector<std::string> numbers = inputs;
    numbers.insert(numbers.end(), signature.kernel_names.begin(), signature.kernel_names.end());

    script::Bindings bindings;
    const auto bind = [&](const std::string& option, const std::string& name, script::Value value) {
        if (!bindings.emplace(name, std::move(value)).second) {
            throw ValueError(
                fmt::format("[{}] expected one value for '{}', got two", option, name));
        }
    };
    for (const std::string& text : arguments.arg) {
        const Assignment given = assignment(text);
        expect_name("--arg", "an input or of a number in a kernel", given.name, numbers);
        bind("--arg", given.name, *script::parse_number(given.value));
    }
    for (const std::string& text : arguments.in) {
        const Assignment given = assignment(text);
        expect_name("--in", "an input", given.name, inputs);
        bind("--in", given.name, read_value(given.value));
    }
    std::map<std::string, TensorSet> sets;
    for (const std::string& text : arguments.shape) {
        const Assignment given = assignment(text);
        const std::size_t dot = given.name.find('.');
        const std::string root = given.name.substr(0, dot);
        expect_name("--shape", "an input", root, inputs);
        if (dot == std::string::npos) {
            bind("--shape", root, zeros(given.value));
        } else {
            if (!sets[root].emplace(given.name.substr(dot + 1), zeros(given.value)).second) {
                throw ValueError(
                    fmt::format("[--shape] expected one value for '{}', got two", given.name));
            }
        }
    }
    for (auto& [name, set] : sets) {
        bind("--shape", name,
             script::SetView{std::make_shared<const TensorSet>(std::move(set)), ""});
    }
    return bindings;
}

script::RunOptions run_options(const RunArguments& arguments) {
    script::RunOptions options;
    options.pedantic = arguments.pedantic;
    options.progress = show_progress;
    set_num_threads(arguments.threads);
    for (const std::string& path : arguments.kernels) load_kernels(path);
    if (arguments.device) {
        set_default_device(*arguments.device);
        options.device = Device(*arguments.device);
    }
    options.numerics = numerics_named(arguments.numerics);
    return options;
}

/// In place of the line of progress, and before the work goes on, for whoever waits at the other
/// end of a pipe.
void print(FILE* to, const std::string& text) {
    clear_progress();
    std::fputs(text.c_str(), to);
    std::fflush(to);
}

std::string explanation(std::string_view kernel, const std::string& text) {
    std::string line = fmt::format("kernel {}:\n{}", kernel, text);
    if (line.back() != '\n') line += '\n';
    return line;
}

/// How long a launch must take at least, and by what.
struct Roofline {
    double memory = 0;
    double units = 0;
    double seconds() const { return std::max(memory, units); }
    const char* by() const { return memory > units ? "memory" : "arithmetic"; }
};

/// None where the machine was not measured.
std::optional<Roofline> roofline_of(const frontend::Work& work, const Bounds& bounds) {
    if (bounds.copy <= 0 || bounds.operations <= 0) return std::nullopt;
    return Roofline{bounds.seconds_of(work.read, work.written),
                    work.operations / bounds.operations};
}

/// Two lines as those of explain().
std::string measured_lines(const script::Timing& timing, const Bounds& bounds) {
    std::string lines;
    std::string part;
    const frontend::Work& work = timing.work;
    if (const auto roofline = roofline_of(work, bounds)) {
        lines = fmt::format(
            "{:<11} {:.3f} ms by {}: {:.3f} ms where a copy has {:.1f} GB/s and a sum {:.1f}, "
            "{:.3f} ms at {:.0f} Gop/s of multiply-adds\n",
            "roofline", 1e3 * roofline->seconds(), roofline->by(), 1e3 * roofline->memory,
            bounds.copy / 1e9, bounds.read / 1e9, 1e3 * roofline->units, bounds.operations / 1e9);
        part =
            fmt::format(", {:.0f} % of the roofline", 100 * roofline->seconds() / timing.seconds);
    }
    return lines + fmt::format("{:<11} {:.3f} ms on {}{}, {:.2f} GB/s, {:.2f} Gop/s\n", "measured",
                               1e3 * timing.seconds, timing.device.id(), part,
                               work.bytes() / timing.seconds / 1e9,
                               work.operations / timing.seconds / 1e9);
}

void print_results(const script::Results& results) {
    const auto print = [](const std::string& name, const script::Value& value) {
        std::string text = to_string(value);
        const bool breaks = text.find('\n') != std::string::npos;
        const std::string line = fmt::format("{} ={}{}\n", name, breaks ? "\n" : " ", text);
        std::fputs(line.c_str(), stdout);
    };
    for (const auto& [name, value] : results.named) print(name, value);
    if (!results.returned.is_none()) print("returned", results.returned);
}

}  // namespace

void run(const RunArguments& arguments, Reporter& reporter) {
    const Loaded loaded = load_script(arguments);
    std::vector<Assignment> outputs;
    std::set<std::string> places;
    for (const std::string& text : arguments.out) {
        outputs.push_back(assignment(text));
        const Assignment& output = outputs.back();
        expect_name("--out", "a top-level result", output.name, loaded.signature.results);
        expect_writable("run", output.value);
        if (!places.insert(target_of(output.value)).second) {
            throw ValueError(
                fmt::format("[--out] expected one result for '{}', got two", output.value));
        }
    }
    // Inputs are read into the memory of the device.
    script::RunOptions options = run_options(arguments);
    const script::Bindings bindings = bindings_of(arguments, loaded.signature);
    if (arguments.explain) {
        options.explained = [&](std::string_view kernel, const std::string& text) {
            FILE* const to = reporter.json() ? stderr : stdout;
            print(to, explanation(kernel, text));
        };
    }
    const script::Results results = script::run(*loaded.source, bindings, options);
    clear_progress();

    std::vector<std::pair<std::string, const script::Value*>> files;
    std::vector<std::string> names;
    for (const Assignment& output : outputs) {
        const script::Value* value = results.find(output.name);
        if (value == nullptr) {
            throw ValueError(fmt::format("[--out] '{}' has no value: the script returned before it",
                                         output.name));
        }
        files.emplace_back(output.value, value);
        names.push_back(output.name);
    }
    write_all(files, names);
    if (outputs.empty() && !reporter.json()) print_results(results);
}

void explain(const RunArguments& arguments, Reporter& reporter) {
    if (arguments.measure && !arguments.shape.empty()) {
        throw ValueError("[--measure] expected whole operands by --in, got --shape");
    }
    const Loaded loaded = load_script(arguments);
    const bool text_alone = !arguments.measure && arguments.in.empty() && arguments.shape.empty() &&
                            arguments.arg.empty();
    FILE* const to = reporter.json() ? stderr : stdout;
    script::RunOptions options = run_options(arguments);
    if (text_alone) {
        lang::Diagnostics places(loaded.source->text, arguments.file);
        for (const script::KernelUse& kernel : loaded.signature.kernels) {
            const auto [line, column] =
                places.place(loaded.source->nodes[std::size_t(kernel.compute)].span.begin);
            const std::string text = frontend::explain(*loaded.source, kernel.compute, kernel.then);
            std::fputs(explanation(fmt::format("in line {}", line), text).c_str(), to);
        }
        return;
    }
    const script::Bindings bindings = bindings_of(arguments, loaded.signature);
    options.shapes_only = !arguments.measure;
    options.explained = [&](std::string_view kernel, const std::string& text) {
        print(to, explanation(kernel, text));
    };
    const Bounds bounds = arguments.measure ? measure_bounds(num_threads()) : Bounds();
    if (arguments.measure) {
        options.timed = [&](std::string_view, const script::Timing& timing) {
            print(to, measured_lines(timing, bounds));
        };
    }
    script::run(*loaded.source, bindings, options);
    clear_progress();
}

void bake(const RunArguments& arguments, Reporter& reporter) {
    const Loaded loaded = load_script(arguments);
    expect_writable("bake", arguments.bundle);
    RunArguments on_cpu = arguments;
    if (!on_cpu.device) on_cpu.device = "cpu";
    script::RunOptions options = run_options(on_cpu);
    const script::Bindings bindings = bindings_of(arguments, loaded.signature);
    options.shapes_only = !arguments.shape.empty();
    options.compiles = options.shapes_only;
    const KernelRecorder recorder;
    script::run(*loaded.source, bindings, options);
    recorder.write(arguments.bundle,
                   {.instructions = arguments.instructions,
                    .progress = [](double part) { show_progress("baking", part); }});
    clear_progress();
    if (reporter.json()) return;
    const std::size_t count = recorder.count();
    const std::string line =
        fmt::format("{}: {} kernel{}, {} bytes\n", arguments.bundle, count, count == 1 ? "" : "s",
                    std::filesystem::file_size(arguments.bundle));
    std::fputs(line.c_str(), stdout);
}

void bench(const RunArguments& arguments, Reporter& reporter) {
    const Loaded loaded = load_script(arguments);
    // Inputs are read into the memory of the device.
    script::RunOptions options = run_options(arguments);
    const script::Bindings bindings = bindings_of(arguments, loaded.signature);
    const Bounds bounds = measure_bounds(num_threads());
    FILE* const to = reporter.json() ? stderr : stdout;
    if (bounds.copy > 0) {
        print(to, fmt::format("this machine, {} threads: a copy {:.1f} GB/s, a sum {:.1f}, "
                              "multiply-adds {:.0f} Gop/s\n",
                              num_threads(), bounds.copy / 1e9, bounds.read / 1e9,
                              bounds.operations / 1e9));
    }
    print(to, fmt::format("{:20} {:12} {:>10} {:>8} {:>8} {:>8}  {}\n", "kernel", "device", "ms",
                          "GB/s", "Gop/s", "bound", "of the bound by"));
    options.timed = [&](std::string_view kernel, const script::Timing& timing) {
        const frontend::Work& work = timing.work;
        std::string bound;
        if (const auto roofline = roofline_of(work, bounds)) {
            bound = fmt::format("{:7.0f}%  {}", 100 * roofline->seconds() / timing.seconds,
                                roofline->by());
        }
        print(to,
              fmt::format("{:20} {:12} {:10.3f} {:8.2f} {:8.2f} {}\n", kernel, timing.device.id(),
                          1e3 * timing.seconds, work.bytes() / timing.seconds / 1e9,
                          work.operations / timing.seconds / 1e9, bound));
    };
    script::run(*loaded.source, bindings, options);
    clear_progress();
}

}  // namespace quern::command
