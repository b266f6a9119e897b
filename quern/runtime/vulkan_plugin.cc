#include "quern/runtime/vulkan_plugin.h"

#include <fmt/format.h>

#include "quern/error.h"
#include "quern/runtime/plugin.h"
#include "quern/runtime/pool.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"

namespace quern::vulkan {
namespace {

struct Loaded {
    Driver* driver = nullptr;
    std::string why;
};

Loaded load() {
    Loaded loaded;
    const std::string path = find_plugin(kPluginName);
    if (path.empty()) {
        loaded.why = fmt::format("{} is neither beside the library nor where QUERN_PLUGINS says",
                                 kPluginName);
        return loaded;
    }
    void* const function = load_plugin(path, kDriverSymbol, kVersionSymbol, loaded.why);
    if (function) loaded.driver = reinterpret_cast<DriverFunction*>(function)(loaded.why);
    return loaded;
}

}  // namespace

std::string to_string(const Groups& groups) {
    const char* const soft = groups.has_soft_float64 ? "; float64 as integers" : "";
    if (!groups.are_lanes) {
        return fmt::format("{} invocations, a point each{}", groups.invocations, soft);
    }
    if (groups.points > 1) {
        return fmt::format("{} invocations, {} lanes of each of {} points{}", groups.invocations,
                           groups.invocations / groups.points, groups.points, soft);
    }
    const std::string together =
        groups.subgroup > 1 ? fmt::format(" in subgroups of {}", groups.subgroup) : std::string();
    const lir::Atom& atom = groups.atom;
    const std::string products =
        atom.rows > 0 ? fmt::format("; products of {} x {} x {} ({}, {})", atom.rows, atom.columns,
                                    atom.depth, to_string(atom.operand), to_string(atom.sum))
                      : std::string();
    return fmt::format("{} lanes{}, one point; {} bytes shared, {} barrier{}{}{}",
                       groups.invocations, together, groups.shared_bytes, groups.barriers,
                       groups.barriers == 1 ? "" : "s", products, soft);
}

Driver& driver_of(std::size_t device) {
    std::string why;
    Driver* const found = driver(why);
    if (!found) raise(DeviceError(fmt::format("[vulkan:{}] E0601: {}", device, why)));
    return *found;
}

void raise_no_room(std::size_t device, std::size_t bytes) {
    const std::string id = "vulkan:" + std::to_string(device);
    std::string why;
    const DeviceDescription& about = driver(why)->devices()[device];
    if (bytes > about.largest_allocation) {
        raise(OutOfMemory(
            fmt::format("[{}] expected at most {} bytes in one piece (maxMemoryAllocationSize), "
                        "got {}",
                        id, about.largest_allocation, bytes),
            bytes));
    }
    Failure failure;
    const Pool* const pool = driver(why)->pool(device, failure);
    const Room room = pool ? pool->room(bytes) : Room{};
    const std::string within = room.limit < std::uint64_t(about.memory)
                                   ? fmt::format("; the limit is {} (set_memory_limit)", room.limit)
                                   : std::string();
    raise(OutOfMemory(fmt::format("[{}] expected room for {} bytes, got none of the device's {}; "
                                  "{} bytes are free, {} in one block{}",
                                  id, bytes, about.memory, room.free, room.largest, within),
                      bytes, room.free, room.largest));
}

void raise_if_failed(std::size_t device, const Failure& failure) {
    if (!failure) return;
    const std::string id = "vulkan:" + std::to_string(device);
    if (failure.kind == Failure::Kind::HostIsFull && failure.what.empty()) raise_out_of_memory(id);
    std::string message = "[" + id + "] " + failure.what;
    switch (failure.kind) {
        case Failure::Kind::None:
        case Failure::Kind::Error:
            raise(DeviceError(std::move(message)));
        case Failure::Kind::Lost:
            raise(DeviceLost(std::move(message)));
        case Failure::Kind::HostIsFull:
            raise(OutOfMemory(std::move(message)));
        case Failure::Kind::DeviceIsFull:
            break;
    }
    std::string why;
    raise(OutOfMemory(
        fmt::format("{}, which has {} bytes", message, driver(why)->devices()[device].memory)));
}

void raise_if_failed(std::size_t device, const Outcome& outcome) {
    if (outcome.out_of_memory > 0 && outcome.is_of_staging) {
        raise(OutOfMemory(fmt::format("[vulkan:{}] expected room for {} bytes of the host's memory "
                                      "that the device sees, got none",
                                      device, outcome.out_of_memory),
                          outcome.out_of_memory));
    }
    if (outcome.out_of_memory > 0) raise_no_room(device, outcome.out_of_memory);
    raise_if_failed(device, outcome.failure);
}

void wait_for(std::size_t device, std::uint64_t ticket) {
    std::string why;
    raise_if_failed(device, driver(why)->wait(device, ticket));
}

Pool& pool_of(std::size_t device) {
    std::string why;
    Failure failure;
    Pool* const pool = driver(why)->pool(device, failure);
    raise_if_failed(device, failure);
    return *pool;
}

bool is_memory_seen(std::size_t device) {
    std::string why;
    return driver(why)->devices()[device].is_memory_seen;
}

Driver* driver(std::string& why) {
    // Made by the first who asks, and never destroyed: work goes on while a program ends.
    static const Loaded& loaded = *new Loaded(load());
    why = loaded.why;
    return loaded.driver;
}

}  // namespace quern::vulkan
