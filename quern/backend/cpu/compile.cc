#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "quern/backend/common/image_of.h"
#include "quern/backend/cpu/emit.h"
#include "quern/backend/cpu/object.h"
#include "quern/backend/cpu/target.h"
#include "quern/lir/vectors.h"
#include "quern/runtime/cpu_plugin.h"

namespace quern::cpu {
namespace {

const char* triple(Simd simd) {
    return simd == Simd::Neon ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu";
}

/// Registers become values, what is computed twice is computed once, what a loop does not change
/// leaves it. instcombine, of LLVM 19, takes relu(max(0, -0)) and choices between float16 for the
/// other zero: only fast code, to which zeros are alike, goes through it, since it takes constants
/// of products together.
std::string passes(Numerics numerics) {
    const char* const simplifies =
        numerics == Numerics::Fast ? "instcombine<no-verify-fixpoint>" : "instsimplify";
    return std::string("function(sroa,early-cse<memssa>,simplifycfg,loop-mssa(licm),") +
           simplifies + ",early-cse)";
}

/// The first processor with SSE4.1, which `floor` and its like need, and without SSE4.2.
constexpr const char* kLeast = "penryn";

const char* processor(Simd simd) {
    switch (simd) {
        case Simd::Scalar:
        case Simd::Sse41:
            return kLeast;
        case Simd::Avx2:
            return "x86-64-v3";
        case Simd::Avx512:
            return "x86-64-v4";
        case Simd::Neon:
            return "generic";
    }
    return kLeast;
}

struct Session {
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = LLVMModuleCreateWithNameInContext("quern", context);
    LLVMTargetMachineRef machine = nullptr;

    Session() = default;
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session() {
        if (machine) LLVMDisposeTargetMachine(machine);
        LLVMDisposeModule(module);
        LLVMContextDispose(context);
    }
};

std::string taken(char* message) {
    std::string text = message ? message : "no message";
    LLVMDisposeMessage(message);
    return text;
}

std::string make_machine(Session& session, Simd simd) {
    static std::once_flag once;
    std::call_once(once, [] {
        LLVMInitializeX86TargetInfo();
        LLVMInitializeX86Target();
        LLVMInitializeX86TargetMC();
        LLVMInitializeX86AsmPrinter();
        LLVMInitializeAArch64TargetInfo();
        LLVMInitializeAArch64Target();
        LLVMInitializeAArch64TargetMC();
        LLVMInitializeAArch64AsmPrinter();
    });
    LLVMTargetRef target = nullptr;
    char* message = nullptr;
    if (LLVMGetTargetFromTriple(triple(simd), &target, &message)) return taken(message);
    session.machine =
        LLVMCreateTargetMachine(target, triple(simd), processor(simd), "", LLVMCodeGenLevelDefault,
                                LLVMRelocPIC, LLVMCodeModelSmall);
    LLVMSetTarget(session.module, triple(simd));
    const LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(session.machine);
    LLVMSetModuleDataLayout(session.module, layout);
    LLVMDisposeTargetData(layout);
    return {};
}

void set_attributes(LLVMModuleRef module, Simd simd) {
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        if (LLVMIsDeclaration(f)) continue;
        LLVMAddTargetDependentFunctionAttr(f, "target-cpu", processor(simd));
        if (simd == Simd::Avx512) {
            LLVMAddTargetDependentFunctionAttr(f, "prefer-vector-width", "512");
        }
    }
}

/// LLVM 19 makes a call of fminf or fmaxf, which machine code here may not have, of a choice
/// between two float16 that it sees are no NaN: it is made between their bits.
void choose_bits_of_halves(const Session& session) {
    const LLVMTypeRef bits = LLVMInt16TypeInContext(session.context);
    const LLVMBuilderRef b = LLVMCreateBuilderInContext(session.context);
    const auto rewrite = [&](LLVMValueRef choice) {
        LLVMPositionBuilderBefore(b, choice);
        const auto as_bits = [&](unsigned operand) {
            return LLVMBuildBitCast(b, LLVMGetOperand(choice, operand), bits, "");
        };
        const LLVMValueRef chosen =
            LLVMBuildSelect(b, LLVMGetOperand(choice, 0), as_bits(1), as_bits(2), "");
        LLVMReplaceAllUsesWith(choice, LLVMBuildBitCast(b, chosen, LLVMTypeOf(choice), ""));
        LLVMInstructionEraseFromParent(choice);
    };
    for (LLVMValueRef f = LLVMGetFirstFunction(session.module); f; f = LLVMGetNextFunction(f)) {
        for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block;
             block = LLVMGetNextBasicBlock(block)) {
            for (LLVMValueRef i = LLVMGetFirstInstruction(block), next; i; i = next) {
                next = LLVMGetNextInstruction(i);
                const bool is_choice = LLVMGetInstructionOpcode(i) == LLVMSelect &&
                                       LLVMGetTypeKind(LLVMTypeOf(i)) == LLVMHalfTypeKind;
                if (is_choice) rewrite(i);
            }
        }
    }
    LLVMDisposeBuilder(b);
}

std::string compile_module(Session& session, Numerics numerics, std::vector<std::byte>& object) {
    if (const char* shown = std::getenv("QUERN_SHOW_LLVM"); shown && *shown == '1') {
        LLVMDumpModule(session.module);
    }
    const LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    const LLVMErrorRef error =
        LLVMRunPasses(session.module, passes(numerics).c_str(), session.machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error) {
        char* message = LLVMGetErrorMessage(error);
        std::string text = message;
        LLVMDisposeErrorMessage(message);
        return text;
    }
    choose_bits_of_halves(session);
    if (const char* shown = std::getenv("QUERN_SHOW_LLVM"); shown && *shown == '2') {
        LLVMDumpModule(session.module);
    }
    return emit_object(session.machine, session.module, object);
}

/// Its functions of lanes.
void put_in_vectors(schedule::Plan& plan, bool watches_races) {
    for (schedule::Stage& stage : plan.stages) {
        if (stage.function.lanes == 1) continue;
        lir::Vectors vectors = lir::in_vectors(stage.function, watches_races);
        stage.function = std::move(vectors.function);
        for (const lir::Vectors::Array& array : vectors.arrays) {
            plan.local.push_back({0, array.dtype, {plan.kernel.integer(array.elements)}});
        }
    }
}

}  // namespace
}  // namespace quern::cpu

extern "C" __attribute__((visibility("default"))) void quern_cpu_compile(
    const quern::cpu::CompileRequest& request, quern::cpu::CompileResult& result) {
    using namespace quern;
    using namespace quern::cpu;
    const auto start = std::chrono::steady_clock::now();
    schedule::Target target = target_of(request.simd);
    target.native.int64 = target.native.float64 = request.has_int64;
    // What is arithmetic on bits fuses nothing.
    target.native.fma &= request.has_int64;
    result.refusal = schedule::legal(request.kernel);
    if (!result.refusal.empty()) return;
    schedule::Plan plan;
    if (request.plan) {
        plan = *request.plan;
        put_in_vectors(plan, request.watches_races);
    } else if (request.tiling) {
        ir::Kernel prepared =
            schedule::prepare(request.kernel, request.facts, request.numerics, request.observer);
        result.refusal = request.tiling->numerics == request.numerics
                             ? schedule::legal(prepared, target, *request.tiling)
                             : "a tiling for another numeric mode";
        if (!result.refusal.empty()) return;
        plan = schedule::lower(std::move(prepared), request.facts, target, *request.tiling);
    } else {
        plan = schedule::plan(request.kernel, request.facts, request.numerics, target,
                              request.observer);
    }

    Session session;
    result.error = make_machine(session, request.simd);
    if (!result.error.empty()) return;
    for (schedule::Stage& stage : plan.stages) {
        stage.function = lir::legalise(std::move(stage.function), target.native);
        emit(session.module, stage.function, request.simd);
    }
#ifndef NDEBUG
    // LIR was verified; what the emitter makes of it is for its developers to see.
    char* message = nullptr;
    if (LLVMVerifyModule(session.module, LLVMReturnStatusAction, &message)) {
        result.error = taken(message);
        return;
    }
    LLVMDisposeMessage(message);
#endif
    set_attributes(session.module, request.simd);
    result.seconds_before_llvm =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::vector<std::byte> object;
    result.error = compile_module(session, request.numerics, object);
    if (result.error.empty()) result.image = to_bytes(image_of(plan, std::move(object)));
}

extern "C" __attribute__((visibility("default"))) const char* quern_cpu_code_version() {
    return quern::cpu::code_version();
}
