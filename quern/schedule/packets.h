#pragma once

#include <cstdint>
#include <span>

#include "quern/ir/cir.h"
#include "quern/ir/facts.h"

namespace quern::schedule {

/// Whether an access by the iterations of a loop may be of packets: iterations from a multiple of
/// `factor` on, as many as that, find neighbours in memory, in 4, 8 or 16 bytes at a multiple of as
/// many. Elements have 32 bits at most.
bool is_packet(ir::Kernel& kernel, const ir::Facts& facts, const ir::Stmt& loop,
               std::int64_t factor, ir::BufferId buffer, std::span<const ir::ExprId> indices);

/// The largest packets that each access is of whose elements iterations do not share; 1 if there
/// are none. What one of them gathers is more code for each of its copies, and no faster.
int packets_of(ir::Kernel& kernel, const ir::Facts& facts, const ir::Stmt& loop);

}  // namespace quern::schedule
