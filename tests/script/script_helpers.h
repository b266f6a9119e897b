#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "quern/script/script.h"

// Runs texts the way the command does.

namespace quern::script {

/// Collects warnings and notes while it lives.
class CaughtWarnings {
public:
    CaughtWarnings() {
        before_ = set_warning_handler(
            [this](const Diagnostic& diagnostic) { list_.push_back(diagnostic); });
    }
    ~CaughtWarnings() { set_warning_handler(before_); }
    CaughtWarnings(const CaughtWarnings&) = delete;
    CaughtWarnings& operator=(const CaughtWarnings&) = delete;

    const std::vector<Diagnostic>& list() const { return list_; }
    int count(const std::string& code) const {
        int n = 0;
        for (const Diagnostic& diagnostic : list_) n += diagnostic.code == code ? 1 : 0;
        return n;
    }

private:
    WarningHandler before_;
    std::vector<Diagnostic> list_;
};

inline Results run_text(const std::string& text, const Bindings& bindings = {},
                        const RunOptions& options = {}) {
    lang::Diagnostics diagnostics(text, "test.quern");
    lang::ParseOptions parse_options;
    parse_options.file = "test.quern";
    const auto source = lang::parse(text, parse_options, diagnostics);
    diagnostics.raise();
    return run(*source, bindings, options);
}

/// The errors that a text is refused with; empty if it runs.
inline std::vector<Diagnostic> errors_of(const std::string& text, const Bindings& bindings = {},
                                         const RunOptions& options = {}) {
    std::vector<Diagnostic> errors;
    try {
        run_text(text, bindings, options);
    } catch (const KernelError& error) {
        for (const Diagnostic& diagnostic : error.diagnostics()) {
            if (diagnostic.severity == Severity::Error) errors.push_back(diagnostic);
        }
    }
    return errors;
}

/// "E0411 at 1:9", or what came instead.
inline std::string error_of(const std::string& text, const Bindings& bindings = {},
                            const RunOptions& options = {}) {
    const std::vector<Diagnostic> errors = errors_of(text, bindings, options);
    if (errors.empty()) return "no error";
    return errors[0].code + " at " + std::to_string(errors[0].line) + ":" +
           std::to_string(errors[0].column);
}

inline std::string message_of(const std::string& text, const Bindings& bindings = {}) {
    const std::vector<Diagnostic> errors = errors_of(text, bindings);
    return errors.empty() ? "no error" : errors[0].message;
}

/// The value of `r` after the text ran, as `quern run` prints it.
inline std::string result_of(const std::string& text, const Bindings& bindings = {}) {
    const Results results = run_text(text, bindings);
    const Value* value = results.find("r");
    return value == nullptr ? "no r" : to_string(*value);
}

inline const Tensor& tensor_in(const Results& results, const std::string& name) {
    const Value* value = results.find(name);
    if (value == nullptr || value->as<Tensor>() == nullptr) {
        throw ValueError("expected a tensor '" + name + "'");
    }
    return *value->as<Tensor>();
}

/// 0, 1, 2, ... in row-major order.
inline Tensor counting(const Shape& shape) {
    std::vector<float> values(std::size_t(element_count(shape)));
    for (std::size_t n = 0; n < values.size(); ++n) values[n] = float(n);
    return Tensor::from(shape, values);
}

inline Value set_of(TensorSet tensors) {
    return SetView{std::make_shared<const TensorSet>(std::move(tensors)), ""};
}

}  // namespace quern::script
