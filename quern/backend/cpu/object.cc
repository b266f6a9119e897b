#include "quern/backend/cpu/object.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <cstring>
#include <mutex>

namespace quern::cpu {
namespace {

/// While it is there, lists of passes are made without LLVM's loop strength reduction, which takes
/// a third of the time to compile and finds little to do: addresses are made for loops
/// (Emitter::address). LLVM has only an option of the command line for it, which it reads where it
/// makes the list; who else uses the library meanwhile may get code without the pass too.
class WithoutStrengthReduction {
public:
    WithoutStrengthReduction() : lock_(mutex()) {
        const auto& options = llvm::cl::getRegisteredOptions();
        const auto found = options.find("disable-lsr");
        if (found == options.end()) return;
        option_ = static_cast<llvm::cl::opt<bool>*>(found->second);
        was_ = option_->getValue();
        option_->setValue(true);
    }
    ~WithoutStrengthReduction() {
        if (option_) option_->setValue(was_);
    }
    WithoutStrengthReduction(const WithoutStrengthReduction&) = delete;
    WithoutStrengthReduction& operator=(const WithoutStrengthReduction&) = delete;

private:
    static std::mutex& mutex() {
        static std::mutex mutex;
        return mutex;
    }

    std::lock_guard<std::mutex> lock_;
    llvm::cl::opt<bool>* option_ = nullptr;
    bool was_ = false;
};

}  // namespace

std::string emit_object(LLVMTargetMachineRef machine, LLVMModuleRef module,
                        std::vector<std::byte>& object) {
    llvm::TargetMachine& target = *reinterpret_cast<llvm::TargetMachine*>(machine);
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream stream(bytes);
    llvm::legacy::PassManager passes;
    {
        const WithoutStrengthReduction without;
        if (target.addPassesToEmitFile(passes, stream, nullptr,
                                       llvm::CodeGenFileType::ObjectFile)) {
            return "LLVM makes no object files for this processor";
        }
    }
    passes.run(*llvm::unwrap(module));
    object.resize(bytes.size());
    if (!bytes.empty()) std::memcpy(object.data(), bytes.data(), bytes.size());
    return {};
}

}  // namespace quern::cpu
