#include "quern/backend/vulkan/limits.h"

#include <vector>

#include "quern/backend/vulkan/module.h"

namespace quern::vulkan {
namespace {

using spv::Op;

/// Measured: an access of memory that lanes may not have takes 6 to 10 places, a loop 4 to 10, a
/// condition 1.
constexpr std::size_t kOfAccess = 10, kOfLoop = 10, kOfCondition = 1;

/// Variables of a function, inputs and what is pushed are there for each lane.
bool may_be_absent(spv::StorageClass storage) {
    return storage == spv::StorageClass::PhysicalStorageBuffer ||
           storage == spv::StorageClass::StorageBuffer || storage == spv::StorageClass::Workgroup;
}

bool is_atomic(Op op) { return op >= Op::OpAtomicLoad && op <= Op::OpAtomicXor; }

}  // namespace

std::size_t places_of(std::span<const std::uint32_t> words) {
    std::size_t places = 0;
    // By id: types of such pointers, and such pointers.
    std::vector<bool> is_far(words[kBoundWord], false);
    for (std::size_t at = kHeaderWords; at < words.size(); at += words[at] >> 16) {
        const auto op = Op(words[at] & 0xffff);
        switch (op) {
            case Op::OpTypePointer:
                is_far[words[at + 1]] = may_be_absent(spv::StorageClass(words[at + 2]));
                break;
            case Op::OpVariable:
            case Op::OpAccessChain:
            case Op::OpConvertUToPtr:
            case Op::OpBitcast:
                is_far[words[at + 2]] = is_far[words[at + 1]];
                break;
            case Op::OpLoad:
                places += is_far[words[at + 3]] ? kOfAccess : 0;
                break;
            case Op::OpStore:
                places += is_far[words[at + 1]] ? kOfAccess : 0;
                break;
            case Op::OpLoopMerge:
                places += kOfLoop;
                break;
            case Op::OpSelectionMerge:
                places += kOfCondition;
                break;
            default:
                places += is_atomic(op) ? kOfAccess : 0;
                break;
        }
    }
    return places;
}

std::string too_long(const lir::Function& function, std::span<const std::uint32_t> words,
                     bool has_few_places) {
    std::size_t instructions = 0;
    for (const auto& block : function.blocks) instructions += block.size();
    if (instructions > kMostInstructions) {
        return "code of " + std::to_string(instructions) +
               " instructions: drivers are given up to " + std::to_string(kMostInstructions);
    }
    if (const std::uint32_t bound = words[kBoundWord]; bound > kMostBound) {
        return "code whose results have the bound " + std::to_string(bound) +
               ": drivers are given up to " + std::to_string(kMostBound);
    }
    if (!has_few_places) return {};
    const std::size_t places = places_of(words) + kMostOfBlock;
    if (places <= kPlaces) return {};
    return "code with " + std::to_string(places) +
           " places for what loops, conditions and accesses of memory keep: SwiftShader has " +
           std::to_string(kPlaces);
}

}  // namespace quern::vulkan
