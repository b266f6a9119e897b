#pragma once

#include <llvm-c/TargetMachine.h>

#include <cstddef>
#include <string>
#include <vector>

namespace quern::cpu {

/// Machine code of a module as an object file. Returns what went wrong, or an empty text.
std::string emit_object(LLVMTargetMachineRef machine, LLVMModuleRef module,
                        std::vector<std::byte>& object);

}  // namespace quern::cpu
