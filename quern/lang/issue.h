#pragma once

#include <cstdint>

#include "quern/lang/diagnostics.h"

namespace quern::lang {

/// What a diagnostic is made from, small enough for both doors: the texts are written at run time.
struct Issue {
    Code code = Code::E0207;

    /// Which of the code's messages; 0 is the usual one. See messages*.cc.
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

    /// What is wrong with a name may turn out to follow from a statement that could not be read.
    static constexpr bool is_provisional(Code code) {
        return code == Code::E0411 || code == Code::E0421;
    }

    /// An error that stays, at this place.
    constexpr bool ends_with_error_at(std::uint32_t begin) const {
        if (count == 0 || list[count - 1].span.begin != begin) return false;
        return is_error(list[count - 1].code) && !is_provisional(list[count - 1].code);
    }

    /// An error that stays, from the issue `first` on.
    constexpr bool has_error_since(int first) const {
        for (int i = first; i < count; ++i) {
            if (is_error(list[i].code) && !is_provisional(list[i].code)) return true;
        }
        return false;
    }

    /// Takes back the provisional errors from the issue `first` on.
    constexpr void drop_provisional(int first) {
        int kept = first;
        for (int i = first; i < count; ++i) {
            if (is_provisional(list[i].code)) {
                --errors;
            } else {
                list[kept] = list[i];
                ++kept;
            }
        }
        count = kept;
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
