#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern {

enum class Severity : std::uint8_t { Error, Warning, Note };

/// A change to the source text that would mend a diagnostic.
struct FixIt {
    /// Byte offset and length of the text that is replaced.
    std::size_t begin = 0;
    std::size_t length = 0;
    std::string replacement;
};

/// What is wrong with a kernel or a script, and where.
struct Diagnostic {
    Severity severity = Severity::Error;

    /// Stable: "E0411". docs/errors/<code>.md explains it. Empty for a warning about something else
    /// than a text.
    std::string code;
    std::string message;

    /// The name of the file, or "<kernel>" for a text without one.
    std::string file;

    /// From 1. Columns and length count bytes.
    int line = 0;
    int column = 0;
    int length = 1;

    /// The line of source that `line` names, without its end.
    std::string source;

    std::vector<std::string> notes;
    std::vector<std::string> help;
    std::vector<FixIt> fixits;
};

/// Renders a diagnostic as text, in the form of docs/language.md section 11:
/// `file:line:column: error[code]: message`, the line, a caret, notes and help.
std::string to_string(const Diagnostic& diagnostic);

/// The base of every exception that Quern throws.
class Error : public std::exception {
public:
    explicit Error(std::string message) : message_(std::move(message)) {}
    const char* what() const noexcept override { return message_.c_str(); }

private:
    std::string message_;
};

/// An argument of a wrong shape, rank or axis.
class ShapeError : public Error {
    using Error::Error;
};

/// An argument of a wrong dtype.
class DTypeError : public Error {
    using Error::Error;
};

/// An argument outside its range, or an unknown option.
class ValueError : public Error {
    using Error::Error;
};

/// A file that is missing, damaged or of another format. The message names file, tensor and field.
class FileError : public Error {
    using Error::Error;
};

/// A device that is absent or that refused a call.
class DeviceError : public Error {
    using Error::Error;
};

/// A device that works no longer. What was launched on it and not waited for is gone, and so is
/// what only its memory had; other devices go on.
class DeviceLost : public DeviceError {
    using DeviceError::DeviceError;
};

/// No room. The message says what the members do: how much was asked for, what was free, and the
/// most that was free in one block; in bytes, each where it is known.
class OutOfMemory : public Error {
public:
    using Bytes = std::optional<std::uint64_t>;
    explicit OutOfMemory(std::string message, Bytes requested = std::nullopt,
                         Bytes free = std::nullopt, Bytes largest_block = std::nullopt)
        : Error(std::move(message)),
          requested_(requested),
          free_(free),
          largest_block_(largest_block) {}

    Bytes requested() const noexcept { return requested_; }
    Bytes free() const noexcept { return free_; }
    Bytes largest_block() const noexcept { return largest_block_; }

private:
    Bytes requested_, free_, largest_block_;
};

/// A broken invariant of the library itself: a bug to report.
class InternalError : public Error {
    using Error::Error;
};

/// A kernel or script that was refused, or that failed while it ran.
class KernelError : public Error {
public:
    /// `diagnostics` holds at least one error.
    explicit KernelError(std::vector<Diagnostic> diagnostics);

    const std::vector<Diagnostic>& diagnostics() const noexcept { return diagnostics_; }

private:
    std::vector<Diagnostic> diagnostics_;
};

/// Receives warnings and notes. It may be called from any thread, by one thread at a time.
using WarningHandler = std::function<void(const Diagnostic&)>;

/// Sets the handler and returns the one before. An empty handler restores the default, which writes
/// each distinct warning once to standard error and leaves notes out. Thread-safe.
WarningHandler set_warning_handler(WarningHandler handler);

/// Hands a warning or a note to the handler. Thread-safe.
void warn(const Diagnostic& diagnostic);

}  // namespace quern
