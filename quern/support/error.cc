#include <atomic>
#include <exception>
#include <string>

#include "quern/support/check.h"
#include "quern/support/memory.h"

namespace quern {
namespace {

std::atomic<void (*)(const Error&)> fatal_handler{nullptr};

/// The path from the library's folder on, so that messages do not depend on where it was built.
std::string_view short_path(std::string_view path) {
    const std::size_t at = path.rfind("quern/");
    return at == std::string_view::npos ? path : path.substr(at);
}

}  // namespace

void raise_out_of_memory(std::string_view op, std::optional<std::uint64_t> bytes,
                         std::optional<Room> room) {
    // Short enough to be held without an allocation.
    std::string message = "out of memory";
#if QUERN_EXCEPTIONS
    try {
#endif
        std::string whole = "[";
        whole += op;
        whole += "] expected room";
        if (bytes) whole += " for " + std::to_string(*bytes) + " bytes";
        whole += room && room->is_limited ? ", got none" : ", got none from the system";
        if (room) {
            whole += "; " + std::to_string(room->free) + " bytes are free, " +
                     std::to_string(room->largest) + " in one block";
            if (room->limit < std::numeric_limits<std::size_t>::max()) {
                whole += "; the limit is " + std::to_string(room->limit) + " (set_memory_limit)";
            }
        }
        message = std::move(whole);
#if QUERN_EXCEPTIONS
    } catch (const std::bad_alloc&) {
    }
#endif
    if (!room) raise(OutOfMemory(std::move(message), bytes));
    raise(OutOfMemory(std::move(message), bytes, room->free, room->largest));
}

void set_fatal_handler(void (*handler)(const Error&)) { fatal_handler.store(handler); }

namespace detail {

void fatal(const Error& error) {
    if (auto* handler = fatal_handler.load()) handler(error);
    std::terminate();
}

void check_failed(const char* file, int line, std::string_view what) {
    std::string message = "[";
    message += short_path(file);
    message += ':';
    message += std::to_string(line);
    message += "] ";
    message += what;
    message += "; please report";
    raise(InternalError(std::move(message)));
}

}  // namespace detail
}  // namespace quern
