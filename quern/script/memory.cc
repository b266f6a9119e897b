// Memory that a script manages itself: allocate(), memory_pool() and what a pool does.

#include <fmt/format.h>

#include <algorithm>

#include "quern/frontend/placement.h"
#include "quern/runtime/device_options.h"
#include "quern/script/interpreter.h"

namespace quern::script {

const Tensor& Interpreter::alive(NodeId id, const Tensor& tensor) const {
    const auto shares = [&](const Tensor& held) { return held.shares_storage_with(tensor); };
    if (!tensor.is_alive() && std::ranges::none_of(all_held_, shares)) {
        fail(Code::E0614, id,
             fmt::format("the memory of '{}' was taken back by free() or reset()", text(id)));
    }
    return tensor;
}

const Interpreter::Argument& Interpreter::argument_named(NodeId callee, const Arguments& arguments,
                                                         std::string_view name,
                                                         std::size_t position) const {
    const Argument* argument = arguments.find(name, position);
    if (argument == nullptr) {
        fail(Code::E0408, callee, fmt::format("'{}' expects {}", text(callee), name));
    }
    return *argument;
}

Shape Interpreter::shape_of(NodeId callee, const Argument& argument, DType dtype) const {
    const Shape shape = integers_of(callee, argument);
    // As element_count has it: extents that are not zero, at most 2^62 bytes.
    std::int64_t bytes = 8;
    bool fits = true;
    for (const std::int64_t extent : shape) {
        if (extent < 0) {
            fail(Code::E0617, argument.node,
                 fmt::format("'{}' expects extents of 0 or more, got {}", text(callee),
                             quern::to_string(shape)));
        }
        if (extent != 0) fits = fits && !__builtin_mul_overflow(bytes, extent, &bytes);
    }
    if (!fits || bytes > std::int64_t(1) << 62) {
        fail(Code::E0618, argument.node,
             fmt::format("'{}' expects a shape of at most 2^62 bytes, got {} of {}", text(callee),
                         quern::to_string(shape), quern::to_string(dtype)));
    }
    return shape;
}

Device Interpreter::device_of(NodeId callee, const Argument* argument) const {
    if (argument == nullptr) return placement_.device;
    const auto* info = argument->value.as<DeviceInfo>();
    const auto* id = info != nullptr ? &info->id : argument->value.as<std::string>();
    if (id == nullptr) {
        fail(Code::E0441, argument->node,
             fmt::format("'{}' expects a device, got {}", text(callee), describe(argument->value)));
    }
    if (const auto message = frontend::absent_device(*id)) {
        fail(Code::E0601, argument->node, *message, {}, {frontend::device_list()});
    }
    return Device(*id);
}

/// Whether it is asked for.
bool Interpreter::is_pinned(const Argument& pinned, std::string_view device) const {
    const auto* is_pinned = pinned.value.as<bool>();
    if (is_pinned == nullptr) {
        fail(Code::E0441, pinned.node,
             fmt::format("'allocate' expects a truth value as pinned, got {}",
                         describe(pinned.value)));
    }
    if (!*is_pinned || has_host_memory(device)) return *is_pinned;
    fail(Code::E0612, pinned.node,
         fmt::format("pinned memory expects the device 'cpu', got '{}'", device),
         {"leave out pinned=true, or allocate on \"cpu\" and copy with to_device()"});
}

Value Interpreter::allocate(NodeId callee, const Arguments& arguments) {
    const Argument* const first = arguments.find("", 0);
    const auto* pool = first != nullptr ? first->value.as<MemoryPool>() : nullptr;
    const std::size_t skipped = pool != nullptr ? 1 : 0;
    std::size_t place = skipped;
    for (const char* name : {"shape", "dtype", "device", "pinned"}) {
        const auto found = arguments.named.find(name);
        if (found != arguments.named.end() && place < arguments.positional.size()) {
            fail(Code::E0408, found->second.node, fmt::format("'{}' is given twice", name));
        }
        ++place;
    }
    DType dtype = DType::Float32;
    if (const Argument* given = arguments.find("dtype", skipped + 1)) {
        const auto* name = given->value.as<DType>();
        if (name == nullptr) {
            fail(Code::E0441, given->node,
                 fmt::format("'allocate' expects a dtype, got {}", describe(given->value)));
        }
        dtype = *name;
    }
    Shape shape = shape_of(callee, argument_named(callee, arguments, "shape", skipped), dtype);
    if (pool == nullptr) {
        const Argument* const device_at = arguments.find("device", 2);
        const Argument* const pinned_at = arguments.find("pinned", 3);
        const Device device = device_of(callee, device_at);
        const bool pinned = pinned_at != nullptr && is_pinned(*pinned_at, device.id());
        if (options_.shapes_only) return placeholder(std::move(shape), dtype);
        return pinned ? Tensor::pinned(std::move(shape), dtype, device)
                      : Tensor::empty(std::move(shape), dtype, device);
    }
    for (const char* name : {"device", "pinned"}) {
        if (const auto found = arguments.named.find(name); found != arguments.named.end()) {
            fail(Code::E0408, found->second.node,
                 fmt::format("'allocate' of a pool has no argument '{}'", name));
        }
    }
    const std::size_t bytes = std::size_t(element_count(shape)) * size_of(dtype);
    const MemoryPool::Counters now = pool->counters();
    // A tensor without elements has a block too.
    if (std::max<std::size_t>(bytes, 1) > now.largest) {
        fail(Code::E0613, callee,
             fmt::format("the pool has no room for {} bytes: {} are free, the largest block has {}",
                         bytes, now.free, now.largest));
    }
    MemoryPool taken = *pool;
    return taken.allocate(std::move(shape), dtype);
}

Value Interpreter::memory_pool(NodeId callee, const Arguments& arguments) {
    const Argument& size_at = argument_named(callee, arguments, "size", 1);
    const std::int64_t size = integer_of(callee, "the size", size_at);
    if (size < 1) {
        fail(Code::E0441, size_at.node,
             fmt::format("'memory_pool' expects a size of a byte or more, got {}", size));
    }
    return MemoryPool(device_of(callee, arguments.find("device", 0)), std::size_t(size));
}

Value Interpreter::memory(NodeId callee, const Arguments& arguments) {
    const std::string name = text(callee);
    if (name == "allocate") return allocate(callee, arguments);
    if (name == "memory_pool") return memory_pool(callee, arguments);
    const Argument& pool_at = *arguments.find("", 0);
    const auto* given = pool_at.value.as<MemoryPool>();
    if (given == nullptr) {
        fail(Code::E0441, pool_at.node,
             fmt::format("'{}' expects a memory pool, got {}", name, describe(pool_at.value)));
    }
    MemoryPool pool = *given;
    if (name == "reset") {
        pool.reset();
        return {};
    }
    const Argument& tensor_at = argument_named(callee, arguments, "", 1);
    const Tensor& tensor = tensor_of(callee, tensor_at);
    if (!pool.owns(tensor)) {
        fail(Code::E0616, tensor_at.node,
             fmt::format("'{}' is not a tensor of this pool", text(tensor_at.node)));
    }
    if (!tensor.is_alive()) {
        fail(Code::E0615, tensor_at.node,
             fmt::format("the memory of '{}' was taken back before", text(tensor_at.node)));
    }
    pool.free(tensor);
    return {};
}

}  // namespace quern::script
