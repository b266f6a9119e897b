#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "quern/error.h"
#include "quern/lang/diagnostics.h"

// What the command says about a text: as lines on standard error, or as one JSON array on standard
// output when the command ends.

namespace quern::command {

class Reporter {
public:
    struct Options {
        bool json = false;

        /// Shows notes (N08xx) as text too; JSON always has them.
        bool notes = false;
    };
    explicit Reporter(Options options) : options_(options) {}

    /// Reports a diagnostic once. Thread-safe.
    void add(const Diagnostic& diagnostic);
    void add(const std::vector<Diagnostic>& diagnostics);

    /// Reports an error that belongs to no line: a file, an option, the machine.
    void add_error(const std::string& message, const std::string& file = {});

    bool json() const { return options_.json; }

    /// Writes the JSON array if there is one. Returns the exit status: 1 after an error, else 0.
    int finish();

private:
    Options options_;
    std::mutex mutex_;
    std::set<std::string> seen_;
    std::vector<Diagnostic> all_;
    bool failed_ = false;
};

}  // namespace quern::command
