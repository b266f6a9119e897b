#include "quern/backend/cpu/object.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace quern::cpu {
namespace {

/// Whether a function is one nest of many loops, as a convolution is: its addresses have more parts
/// than registers hold. Attention has as deep nests, but many of them.
bool has_one_deep_nest(llvm::Module& module) {
    constexpr unsigned kDeep = 5;
    constexpr std::size_t kFew = 24;
    return std::ranges::any_of(module, [](llvm::Function& function) {
        if (function.isDeclaration()) return false;
        const llvm::DominatorTree dominators(function);
        const llvm::LoopInfo info(dominators);
        const auto loops = info.getLoopsInPreorder();
        return loops.size() <= kFew && std::ranges::any_of(loops, [](const llvm::Loop* loop) {
                   return loop->getLoopDepth() >= kDeep;
               });
    });
}

/// While it is there, lists of passes are made without LLVM's loop strength reduction, which takes
/// a third of the time to compile and finds little to do: addresses are made for loops
/// (Emitter::address). It is left in for deep nests: a convolution of 64 channels takes 4.3 ms with
/// it and 5.7 without. LLVM has only an option of the command line for it, which it reads where it
/// makes the list; who else uses the library meanwhile may get code without the pass too.
class WithoutStrengthReduction {
public:
    explicit WithoutStrengthReduction(bool is_left_out) : lock_(mutex()) {
        if (!is_left_out) return;
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
        const WithoutStrengthReduction without(!has_one_deep_nest(*llvm::unwrap(module)));
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
