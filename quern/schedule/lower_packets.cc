#include <algorithm>
#include <map>
#include <vector>

#include "quern/schedule/lowerer.h"
#include "quern/schedule/packets.h"

namespace quern::schedule {

/// Whether the lanes, whose copies are neighbours, find theirs at once.
bool Lowerer::are_packets(ir::BufferId buffer, const std::vector<ExprId>& indices) {
    return !has_mask_ && is_packet(k_, facts_, *packets_.loop, packets_.factor, buffer, indices);
}

/// `offset` is that of lane 0, for each copy.
Bundle Lowerer::load_packets(ir::BufferId buffer, const Bundle& offset) {
    std::map<Copy, ValueId> packets;
    Bundle result;
    result.axes = offset.axes;
    for_each_copy(result.axes, [&](const Copy& copy) {
        Copy first = copy;
        first[packets_.axis] = 0;
        const auto [packet, is_new] = packets.try_emplace(first);
        if (is_new) {
            packet->second = b_.load_packets(buffer, at(offset, first), active_lanes(),
                                             std::uint8_t(packets_.factor));
            if (buffer == stored_) b_.number_load(packet->second, stored_number_);
        }
        result.copies.push_back(b_.element(packet->second, std::uint64_t(copy[packets_.axis])));
    });
    return result;
}

void Lowerer::store_packets(ir::BufferId buffer, const Bundle& offset, const Bundle& value) {
    for_each_copy((offset.axes | value.axes) & ~(1u << packets_.axis), [&](const Copy& copy) {
        std::vector<ValueId> parts;
        Copy each = copy;
        for (int u = 0; u < packets_.factor; ++u) {
            each[packets_.axis] = u;
            parts.push_back(b_.splat(at(value, each), active_lanes()));
        }
        for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
            for (std::size_t n = 0; n < parts.size(); n += 2) {
                parts[n / 2] = b_.join(parts[n], parts[n + 1]);
            }
        }
        b_.store(buffer, at(offset, copy), parts[0]);
    });
}

}  // namespace quern::schedule
