// The time to check a text: K14 alone, parsed and lowered, and a megabyte of kernels.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "quern/lang/parse.h"
#include "quern/semantics/request.h"

namespace quern {
namespace {

std::string text_of(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(std::filesystem::path(QUERN_SOURCE_DIR) / "examples/kernels" / name)
                .rdbuf();
    return text.str();
}

/// Parses and lowers every compute of a text, each with operands of one rank.
std::size_t check(const std::string& text, int rank) {
    lang::Diagnostics diagnostics(text);
    const auto source = lang::parse(text, {}, diagnostics);
    const lang::Tree tree = source->tree();
    const semantics::Arguments none;
    std::size_t nodes = 0;
    for (lang::NodeId s = tree[tree.root].first; s >= 0; s = tree[s].next) {
        const lang::NodeId compute = tree.child(s, 2);
        semantics::Request request{*source, compute, {}, none, false, {}, true};
        const int operands = tree.child_count(tree.child(compute, 0));
        request.operands.assign(std::size_t(operands), {DType::Float32, rank});
        const auto lowered = semantics::lower(request, {}, diagnostics);
        if (!lowered) break;
        nodes += lowered->kernel.exprs.size();
    }
    if (diagnostics.has_errors())
        std::printf("%s\n", to_string(diagnostics.sorted().front()).c_str());
    return nodes;
}

/// Milliseconds: the median of several runs.
template <class Work>
double time_of(int runs, Work work) {
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
        const auto start = std::chrono::steady_clock::now();
        work();
        times.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                .count());
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

}  // namespace
}  // namespace quern

int main() {
    using namespace quern;
    const std::string k14 = text_of("14_flash_attention.quern");
    std::size_t nodes = 0;
    const double whole = time_of(501, [&] { nodes = check(k14, 4); });
    const double parse = time_of(501, [&] {
        lang::Diagnostics diagnostics(k14);
        lang::parse(k14, {}, diagnostics);
    });
    std::printf("K14: %.3f ms, of which %.3f ms to parse; %zu nodes (median of 501)\n", whole,
                parse, nodes);

    std::string megabyte;
    while (megabyte.size() < 1'000'000) megabyte += k14;
    const double text = time_of(5, [&] {
        lang::Diagnostics diagnostics(megabyte);
        lang::parse(megabyte, {}, diagnostics);
    });
    const double all = time_of(3, [&] { nodes = check(megabyte, 4); });
    std::printf("%zu bytes of K14: %.0f ms to parse, %.0f ms with the analysis\n", megabyte.size(),
                text, all);
}
