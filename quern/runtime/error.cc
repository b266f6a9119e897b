#include "quern/error.h"

#include <exception>
#include <iostream>
#include <set>
#include <utility>

#include "quern/runtime/later_warnings.h"
#include "quern/support/check.h"
#include "quern/support/threads.h"

namespace quern {
namespace {

std::string joined(const std::vector<Diagnostic>& diagnostics) {
    std::string text;
    for (const Diagnostic& diagnostic : diagnostics) {
        if (!text.empty()) text += '\n';
        text += to_string(diagnostic);
    }
    return text;
}

struct Warnings {
    /// Recursive, so that a handler may warn or replace itself.
    RecursiveMutex mutex;
    WarningHandler handler;
    std::set<std::string> written;
};

/// Never destroyed: destructors of the program's static objects may still warn.
Warnings& warnings() {
    static Warnings& instance = *new Warnings;
    return instance;
}

void write_once(Warnings& state, const Diagnostic& diagnostic) {
    if (diagnostic.severity == Severity::Note) return;
    std::string text = to_string(diagnostic);
    const auto [line, is_new] = state.written.insert(std::move(text));
    if (is_new) std::cerr << *line << (line->ends_with('\n') ? "" : "\n") << std::flush;
}

}  // namespace

KernelError::KernelError(std::vector<Diagnostic> diagnostics)
    : Error(joined(diagnostics)), diagnostics_(std::move(diagnostics)) {}

WarningHandler set_warning_handler(WarningHandler handler) {
    Warnings& state = warnings();
    const Lock lock(state.mutex);
    return std::exchange(state.handler, std::move(handler));
}

LaterWarnings*& LaterWarnings::current() noexcept {
    static thread_local LaterWarnings* innermost = nullptr;
    return innermost;
}

LaterWarnings::LaterWarnings()
    : outer_(std::exchange(current(), this)), errors_(std::uncaught_exceptions()) {}

LaterWarnings::~LaterWarnings() noexcept(false) {
    current() = outer_;
#if QUERN_EXCEPTIONS
    for (const Diagnostic& diagnostic : all_) {
        try {
            warn(diagnostic);
        } catch (...) {
            if (std::uncaught_exceptions() == errors_) throw;
        }
    }
#else
    for (const Diagnostic& diagnostic : all_) warn(diagnostic);
#endif
}

void warn(const Diagnostic& diagnostic) {
    if (LaterWarnings* const later = LaterWarnings::current()) {
        later->all_.push_back(diagnostic);
        return;
    }
    Warnings& state = warnings();
    const Lock lock(state.mutex);
    if (const WarningHandler handler = state.handler) {
        handler(diagnostic);
    } else {
        write_once(state, diagnostic);
    }
}

}  // namespace quern
