#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "quern/error.h"

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define QUERN_EXCEPTIONS 1
#else
#define QUERN_EXCEPTIONS 0
#endif

namespace quern {

/// The one place where an error leaves the library. With exceptions it throws `error`; a build with
/// -fno-exceptions hands it to the handler of `set_fatal_handler`, which must not return.
template <class E>
[[noreturn]] void raise(E error);

/// For builds without exceptions: receives the error that cannot be thrown. The default ends the
/// program by std::terminate.
void set_fatal_handler(void (*handler)(const Error&));

namespace detail {
[[noreturn]] void fatal(const Error& error);
[[noreturn]] void check_failed(const char* file, int line, std::string_view what);
}  // namespace detail

template <class E>
[[noreturn]] void raise(E error) {
#if QUERN_EXCEPTIONS
    throw error;
#else
    detail::fatal(error);
#endif
}

}  // namespace quern

/// States an invariant of the library itself; on in release builds. Throws InternalError.
#define QUERN_CHECK(condition, what) \
    ((condition) ? void() : ::quern::detail::check_failed(__FILE__, __LINE__, what))
