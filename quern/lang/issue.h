#pragma once

#include <cstdint>

#include "quern/lang/diagnostics.h"

namespace quern::lang {

/// What a diagnostic is made from, small enough for both doors: the texts are written at run time.
struct Issue {
    Code code = Code::E0207;

    /// Which of the code's messages; 0 is the usual one. See messages.cc.
    std::uint8_t variant = 0;
    Span span;

    /// A second place or a name that the message speaks of: an opener, a first declaration.
    Span other;
};

constexpr bool is_error(Code code) { return code < Code::W0701; }

/// The issues of one text, as they were found.
struct Issues {
    static constexpr int kCapacity = 96;
    Issue list[kCapacity]{};
    int count = 0;
    int errors = 0;

    constexpr bool full() const { return errors >= Diagnostics::kLimit; }

    constexpr void add(Code code, Span span, std::uint8_t variant = 0, Span other = {}) {
        // Warnings leave room for the errors to come.
        const bool error = is_error(code);
        if (error ? full() : count - errors >= kCapacity - Diagnostics::kLimit) return;
        for (int i = 0; i < count; ++i) {
            if (list[i].code == code && list[i].span.begin == span.begin) return;
        }
        list[count] = Issue{code, variant, span, other};
        ++count;
        if (error) ++errors;
    }

    /// The error that comes first in the text, or null.
    constexpr const Issue* first_error() const {
        const Issue* first = nullptr;
        for (int i = 0; i < count; ++i) {
            if (!is_error(list[i].code)) continue;
            if (first == nullptr || list[i].span.begin < first->span.begin) first = &list[i];
        }
        return first;
    }
};

}  // namespace quern::lang
