// What the tests of the analysis share: a text in; its diagnostics, its CIR, its numbers out.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "quern/ir/print.h"
#include "quern/ir/verify.h"
#include "quern/semantics/bind.h"
#include "tests/tensor_test.h"

namespace quern::semantics {

struct Operand {
    Shape shape;
    DType dtype = DType::Float32;
};

struct Given {
    std::vector<Operand> operands;
    Arguments arguments;
    bool pedantic = false;
    Limits limits;
    std::vector<Piped> then;
};

inline Given with(std::vector<Operand> operands, Arguments arguments = {}) {
    return {std::move(operands), std::move(arguments), false, {}, {}};
}

/// A kernel of one operand.
inline std::string over_x(const std::string& body) {
    return "compute(x) {\n@kernel custom\n" + body + "\n}";
}

struct Analysed {
    std::vector<Diagnostic> diagnostics;
    std::optional<Lowered> lowered;
    std::optional<Binding> binding;

    /// "E0501 5:33 `k`; W0702 6:9 `s`": each diagnostic but notes, with what it marks.
    std::string findings(bool notes = false) const {
        std::string text;
        for (const Diagnostic& d : diagnostics) {
            if (d.severity == Severity::Note && !notes) continue;
            if (!text.empty()) text += "; ";
            text += d.code + " " + std::to_string(d.line) + ":" + std::to_string(d.column) + " `" +
                    d.source.substr(std::size_t(d.column - 1), std::size_t(d.length)) + "`";
        }
        return text;
    }

    /// Everything that the first diagnostic with the code says.
    std::string words(std::string_view code) const {
        for (const Diagnostic& d : diagnostics) {
            if (d.code == code) return to_string(d);
        }
        return "no " + std::string(code);
    }
    std::string cir() const { return lowered ? ir::print(lowered->kernel) : findings(); }

    /// "axis 0 of 'A' (bare index)" for the dim's value.
    std::string origin(std::string_view dim) const {
        for (std::size_t d = 0; binding && d < binding->dims.size(); ++d) {
            if (lowered->kernel.dims[d].name != dim) continue;
            return std::to_string(binding->dims[d]) + " from " + binding->origins[d];
        }
        return findings();
    }
    Shape output() const { return binding ? binding->output : Shape{-1}; }
    DType out_dtype() const {
        if (lowered) return lowered->kernel.buffers[lowered->kernel.output()].dtype;
        ADD_FAILURE() << findings();
        return DType::Float8E4M3;
    }
};

/// Parses a text of one compute, lowers it and binds its dimensions.
inline Analysed analyse(const std::string& text, const Given& given) {
    Analysed result;
    lang::Diagnostics diagnostics(text);
    const auto source = lang::parse(text, {{}, given.pedantic}, diagnostics);
    if (!diagnostics.has_errors()) {
        const lang::Tree tree = source->tree();
        lang::NodeId compute = tree[tree.root].first;
        while (tree[compute].kind != lang::Kind::Compute) {
            compute = tree[compute].kind == lang::Kind::Decl ? tree.child(compute, 2)
                                                             : tree[compute].first;
        }
        Request request{*source, compute, {}, given.arguments, given.pedantic, given.then, false};
        std::vector<Shape> shapes;
        for (const Operand& o : given.operands) {
            request.operands.push_back({o.dtype, static_cast<int>(o.shape.size())});
            shapes.push_back(o.shape);
        }
        result.lowered = lower(request, given.limits, diagnostics);
        if (result.lowered) {
            EXPECT_EQ(ir::verify(result.lowered->kernel), std::vector<std::string>{})
                << result.cir();
            for (std::size_t i = 0; i < shapes.size(); ++i) {
                if (result.lowered->kernel.buffers[i].flat) shapes[i] = {element_count(shapes[i])};
            }
            result.binding = semantics::bind(*result.lowered, shapes, given.limits, diagnostics);
        }
    }
    result.diagnostics = diagnostics.sorted();
    return result;
}

inline std::string findings(const std::string& text, const Given& given) {
    return analyse(text, given).findings();
}

inline ::testing::AssertionResult contains(const std::string& text, std::string_view part) {
    if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "no \"" << part << "\" in\n" << text;
}

/// The text of examples/kernels/<number>_*.quern.
std::string example_text(std::string_view number);

}  // namespace quern::semantics
