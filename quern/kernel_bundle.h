#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

// Compiled kernels in a file: what a program ships in place of the compiler plug-in.
//
//     quern::KernelRecorder recorder;    // where the compiler is
//     ...                                // launches like those of the program
//     recorder.write("program.kernels");
//
//     quern::load_kernels("program.kernels");    // in the program

namespace quern {

namespace frontend {
class NotedKernels;
}

/// Takes note of each kernel that the device cpu is asked for code of while it lives: by launches,
/// and by explain(). Launches of the interpreter are not noted. Thread-safe.
class KernelRecorder {
public:
    KernelRecorder();
    ~KernelRecorder();
    KernelRecorder(const KernelRecorder&) = delete;
    KernelRecorder& operator=(const KernelRecorder&) = delete;

    /// How many different kernels were noted. One is another with other dtypes, ranks or integers
    /// bound by arg(), but not with other extents or floating-point numbers.
    std::size_t count() const;

    /// How code is made.
    struct Options {
        /// For which processors, as QUERN_CPU names them; any, also those of other machines. None:
        /// all of this architecture but "scalar", which is for comparison.
        std::vector<std::string> instructions;

        /// Called with the part of the work that is done.
        std::function<void(double)> progress;
    };

    /// Compiles what was noted and writes it to a file, which appears complete or not at all. There
    /// is code for launches like those that were noted, and, for each mode in which a kernel was,
    /// code for any extents and strides of the same dtypes and ranks. Launches that differ in what
    /// divides their extents, in their order of magnitude or in the layout of operands have code of
    /// their own, so a few that are typical do better than many. Throws ValueError if nothing was
    /// noted or if instructions have no such name, DeviceError if the compiler is not there,
    /// FileError.
    void write(const std::string& path, const Options& options) const;
    void write(const std::string& path) const { write(path, {}); }

private:
    std::shared_ptr<frontend::NotedKernels> noted_;
};

/// Lets launches run the code in a file that KernelRecorder::write or `quern bake` wrote; it is
/// taken before what the compiler would make, and what is not in it is compiled, if the compiler is
/// there (else such a launch throws E0601). The device cpu is then there too, and is what "auto"
/// and tensors that name no device mean: load before the first tensor. Files may be loaded one
/// after the other; of all their code a launch takes what fits it best.
///
/// Throws FileError if the file is damaged, was made by another version of Quern, or has nothing
/// for this processor; nothing is loaded then. The code runs with the rights of the program: load
/// only what you would load as a library. Thread-safe.
void load_kernels(const std::string& path);

/// The same for the bytes of such a file, which need not outlive the call.
void load_kernels(std::span<const std::byte> bytes);

}  // namespace quern
