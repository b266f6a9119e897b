#include "quern/runtime/kernel_bundle.h"

#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "quern/error.h"
#include "quern/ir/print.h"
#include "quern/kernel_bundle.h"
#include "quern/runtime/bytes.h"
#include "quern/support/check.h"
#include "quern/support/file.h"
#include "quern/support/memory.h"
#include "quern/support/threads.h"

namespace quern {

/// Code that a bundle has, laid out when it is first of use.
class LoadedKernel {
public:
    explicit LoadedKernel(KernelBundle::Code code)
        : image_(std::move(code.image)), code_(std::move(code)) {}

    bool fits(const ir::Facts& facts, Numerics numerics, cpu::Simd most) const {
        return code_.numerics == numerics && code_.simd <= most && ir::holds(code_.facts, facts);
    }

    bool is_like(const LoadedKernel& other) const {
        return code_.numerics == other.code_.numerics && code_.simd == other.code_.simd &&
               code_.facts == other.code_.facts;
    }

    /// Without the image.
    const KernelBundle::Code& code() const { return code_; }

    std::shared_ptr<const CompiledKernel> compiled(const ir::Kernel& kernel) {
        const Lock lock(mutex_);
        if (!compiled_) {
            compiled_ = std::make_shared<const CompiledKernel>(kernel, code_.facts, image_);
            image_ = {};
        }
        return compiled_;
    }

private:
    std::vector<std::byte> image_;
    const KernelBundle::Code code_;
    Mutex mutex_;
    std::shared_ptr<const CompiledKernel> compiled_;
};

namespace {

constexpr std::uint64_t kBundleMagic = 0x3142'4e52'4555'51ull;  // "QUERNB1"

constexpr std::uint64_t kLevels = std::uint64_t(cpu::Simd::Neon) + 1;
constexpr std::uint64_t kModes = std::uint64_t(Numerics::Fast) + 1;
constexpr std::uint64_t kBuckets = std::uint64_t(ir::Bucket::Large) + 1;

/// Of powers of two, in facts.
constexpr std::uint64_t kLogs = 8;

using BundleReader = ByteReader<FileError>;

void write(ByteWriter& out, const ir::Facts& facts) {
    out.list(facts.dims, [&](const ir::DimFacts& d) {
        out.number(std::uint8_t{d.is_one});
        out.number(d.divisible_log2);
        out.number(d.bucket);
    });
    out.list(facts.operands, [&](const ir::OperandFacts& o) {
        out.number(o.dtype);
        out.number(o.rank);
        out.number(o.contiguous_axes);
        out.number(o.aligned_log2);
        out.number(std::uint8_t{o.is_streamed});
    });
}

ir::Facts read_facts(BundleReader& in) {
    ir::Facts facts;
    in.list(3, [&] {
        ir::DimFacts& d = facts.dims.emplace_back();
        d.is_one = in.below<bool>(2);
        d.divisible_log2 = in.below<std::uint8_t>(kLogs);
        d.bucket = in.below<ir::Bucket>(kBuckets);
    });
    in.list(5, [&] {
        ir::OperandFacts& o = facts.operands.emplace_back();
        o.dtype = in.below<DType>(kDTypeCount);
        o.rank = in.number<std::uint8_t>();
        o.contiguous_axes = in.below<std::uint8_t>(o.rank + std::uint64_t{1});
        o.aligned_log2 = in.below<std::uint8_t>(kLogs);
        o.is_streamed = in.below<bool>(2);
    });
    if (facts.operands.empty()) in.refuse("code without an output");
    return facts;
}

std::uint32_t checksum_of(std::span<const std::byte> bytes) {
    return std::uint32_t(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

/// Where the best stand, the best first.
std::vector<std::size_t> best_first(const std::vector<const KernelBundle::Code*>& codes) {
    struct Rank {
        cpu::Simd simd;

        /// How many could run its launches: more where more is assumed.
        std::ptrdiff_t replacements;
        std::size_t at;
    };
    std::vector<Rank> ranks;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const KernelBundle::Code& code = *codes[i];
        const auto replaces = [&](const KernelBundle::Code* other) {
            return other->simd == code.simd && other->numerics == code.numerics &&
                   ir::holds(other->facts, code.facts);
        };
        ranks.push_back({code.simd, std::ranges::count_if(codes, replaces), i});
    }
    std::ranges::sort(ranks, [](const Rank& a, const Rank& b) {
        return std::tuple(b.simd, b.replacements, a.at) < std::tuple(a.simd, a.replacements, b.at);
    });
    std::vector<std::size_t> order;
    for (const Rank& rank : ranks) order.push_back(rank.at);
    return order;
}

using LoadedList = std::vector<std::shared_ptr<LoadedKernel>>;

/// Both, without what the first has already, the best first.
LoadedList merged(const LoadedList& there, const LoadedList& added) {
    LoadedList all = there;
    for (const auto& each : added) {
        const auto is_same = [&](const auto& other) { return other->is_like(*each); };
        if (std::ranges::none_of(there, is_same)) all.push_back(each);
    }
    std::vector<const KernelBundle::Code*> codes;
    for (const auto& each : all) codes.push_back(&each->code());
    LoadedList sorted;
    for (const std::size_t at : best_first(codes)) sorted.push_back(all[at]);
    return sorted;
}

/// All that was loaded, by the text of kernels.
struct Loaded {
    Mutex mutex;
    std::unordered_map<std::string, LoadedList> kernels;

    /// How many bundles.
    std::atomic<std::size_t> bundles{0};
};

/// Never destroyed: destructors of the program's static objects may still launch.
Loaded& loaded() {
    static Loaded& instance = *new Loaded;
    return instance;
}

}  // namespace

std::string bundle_version() {
    const std::string_view version = cpu::code_version();
    return std::string(version.substr(0, version.find('-')));
}

void put_best_first(std::vector<KernelBundle::Code>& codes) {
    std::vector<const KernelBundle::Code*> list;
    for (const KernelBundle::Code& code : codes) list.push_back(&code);
    std::vector<KernelBundle::Code> sorted;
    for (const std::size_t at : best_first(list)) sorted.push_back(std::move(codes[at]));
    codes = std::move(sorted);
}

std::vector<std::byte> to_bytes(const KernelBundle& bundle) {
    ByteWriter body;
    body.bytes(bundle.version);
    body.list(bundle.kernels, [&](const KernelBundle::Kernel& kernel) {
        body.bytes(kernel.text);
        body.list(kernel.codes, [&](const KernelBundle::Code& code) {
            body.number(code.simd);
            body.number(code.numerics);
            write(body, code.facts);
            body.bytes(code.image);
        });
    });
    const std::vector<std::byte> rest = body.take();
    ByteWriter head;
    head.number(kBundleMagic);
    head.number(checksum_of(rest));
    std::vector<std::byte> bytes = head.take();
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    return bytes;
}

KernelBundle bundle_from(std::span<const std::byte> bytes, const std::string& name) {
    BundleReader in(bytes, "[load_kernels] " + name + ": expected baked kernels, got ");
    if (in.number<std::uint64_t>() != kBundleMagic) in.refuse("something else");
    if (in.number<std::uint32_t>() != checksum_of(in.rest())) {
        in.refuse("a file with a wrong checksum");
    }
    KernelBundle bundle;
    bundle.version = in.text();
    in.list(8, [&] {
        KernelBundle::Kernel& kernel = bundle.kernels.emplace_back();
        kernel.text = in.text();
        in.list(14, [&] {
            KernelBundle::Code& code = kernel.codes.emplace_back();
            code.simd = in.below<cpu::Simd>(kLevels);
            code.numerics = in.below<Numerics>(kModes);
            code.facts = read_facts(in);
            const auto image = in.bytes();
            code.image.assign(image.begin(), image.end());
        });
    });
    if (!in.is_at_end()) in.refuse("a file with more behind them");
    return bundle;
}

void add_loaded(KernelBundle bundle, const std::string& name) {
    if (bundle.version != bundle_version()) {
        raise(FileError("[load_kernels] " + name + ": expected kernels of version " +
                        bundle_version() + ", got " + bundle.version +
                        "; they must be baked again"));
    }
    std::vector<std::pair<std::string, LoadedList>> added;
    for (KernelBundle::Kernel& kernel : bundle.kernels) {
        auto& [text, codes] = added.emplace_back();
        text = std::move(kernel.text);
        for (KernelBundle::Code& code : kernel.codes) {
            if (!cpu::has(code.simd)) continue;
            codes.push_back(std::make_shared<LoadedKernel>(std::move(code)));
        }
        if (codes.empty()) added.pop_back();
    }
    if (added.empty()) {
        raise(FileError("[load_kernels] " + name +
                        ": expected kernels for this processor, got none"));
    }
    Loaded& all = loaded();
    const Lock lock(all.mutex);
    // A copy, so that nothing is loaded if memory ends.
    auto kernels = all.kernels;
    for (const auto& [text, codes] : added) {
        LoadedList& place = kernels[text];
        place = merged(place, codes);
    }
    all.kernels.swap(kernels);
    all.bundles.fetch_add(1);
}

bool has_loaded_kernels() noexcept { return loaded().bundles.load() > 0; }

LoadedCode::LoadedCode() = default;
LoadedCode::~LoadedCode() = default;

std::shared_ptr<const CompiledKernel> LoadedCode::find(const ir::Kernel& kernel,
                                                       const ir::Facts& facts, Numerics numerics) {
    Loaded& all = loaded();
    if (all.bundles.load() != bundles_) {
        const std::string text = ir::identity(kernel);
        const Lock lock(all.mutex);
        const auto found = all.kernels.find(text);
        if (found != all.kernels.end()) codes_ = found->second;
        bundles_ = all.bundles.load();
    }
    if (codes_.empty()) return nullptr;
    const cpu::Simd most = cpu::chosen_simd();
    for (const auto& code : codes_) {
        if (code->fits(facts, numerics, most)) return code->compiled(kernel);
    }
    return nullptr;
}

void load_kernels(const std::string& path) {
    or_out_of_memory("load_kernels",
                     [&] { add_loaded(bundle_from(read_file(path, kMostOfBundle), path), path); });
}

void load_kernels(std::span<const std::byte> bytes) {
    constexpr const char* kName = "memory";
    or_out_of_memory("load_kernels", [&] { add_loaded(bundle_from(bytes, kName), kName); });
}

}  // namespace quern
