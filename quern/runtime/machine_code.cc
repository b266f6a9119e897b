#include "quern/runtime/machine_code.h"

#include <elf.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "quern/error.h"
#include "quern/support/check.h"

namespace quern {
namespace {

constexpr std::size_t kPage = 4096;

#if defined(__aarch64__)
constexpr auto kProcessor = EM_AARCH64;
#else
constexpr auto kProcessor = EM_X86_64;
#endif

[[noreturn]] void refuse(const std::string& what) {
    raise(DeviceError("[machine_code] expected an object that the compiler made, got " + what));
}

/// Reads an object whose every number may be wrong.
class Object {
public:
    explicit Object(std::span<const std::byte> bytes) : bytes_(bytes) {
        header_ = read<Elf64_Ehdr>(0);
        if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
            header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_type != ET_REL) {
            refuse("something else");
        }
        if (header_.e_machine != kProcessor) refuse("one for another processor");
        if (header_.e_shentsize != sizeof(Elf64_Shdr)) refuse("sections of another size");
        for (std::size_t i = 0; i < header_.e_shnum; ++i) {
            sections_.push_back(read<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr)));
        }
    }

    const std::vector<Elf64_Shdr>& sections() const { return sections_; }

    template <class T>
    T read(std::uint64_t offset) const {
        T value;
        std::memcpy(&value, range(offset, sizeof(T)).data(), sizeof(T));
        return value;
    }

    std::span<const std::byte> range(std::uint64_t offset, std::uint64_t size) const {
        if (offset > bytes_.size() || size > bytes_.size() - offset) refuse("one that is cut off");
        return bytes_.subspan(offset, size);
    }

    std::string text(const Elf64_Shdr& table, std::uint64_t at) const {
        if (at >= table.sh_size) refuse("a name outside its table");
        const auto rest = range(table.sh_offset + at, table.sh_size - at);
        const void* end = std::memchr(rest.data(), 0, rest.size());
        if (!end) refuse("a name without an end");
        return reinterpret_cast<const char*>(rest.data());
    }

    const Elf64_Shdr& section(std::size_t index) const {
        if (index >= sections_.size()) refuse("a section that is not there");
        return sections_[index];
    }

private:
    std::span<const std::byte> bytes_;
    Elf64_Ehdr header_{};
    std::vector<Elf64_Shdr> sections_;
};

/// What belongs in memory. Unwind tables do not: compiled kernels neither throw nor call.
bool is_loaded(const Object& object, const Elf64_Shdr& s, const Elf64_Shdr& names) {
    if ((s.sh_flags & SHF_ALLOC) == 0 || s.sh_size == 0) return false;
    return object.text(names, s.sh_name) != ".eh_frame";
}

struct Layout {
    std::vector<std::size_t> begin;
    std::vector<bool> is_here;
    std::size_t size = 0;
};

Layout lay_out(const Object& object, const Elf64_Shdr& names) {
    constexpr std::uint64_t kMost = std::uint64_t(1) << 30;
    Layout layout;
    for (const Elf64_Shdr& s : object.sections()) {
        const bool here = is_loaded(object, s, names);
        layout.is_here.push_back(here);
        if (here) {
            const std::uint64_t align = s.sh_addralign > 1 ? s.sh_addralign : 1;
            if (align > kPage || (align & (align - 1)) != 0)
                refuse("a section that asks for too much alignment");
            if ((s.sh_flags & SHF_WRITE) != 0) refuse("a section that is written");
            if (s.sh_size > kMost) refuse("a section that is too large");
            layout.size = (layout.size + align - 1) & ~(align - 1);
        }
        layout.begin.push_back(layout.size);
        if (here) layout.size += s.sh_size;
        if (layout.size > kMost) refuse("more than fits");
    }
    return layout;
}

bool fits(std::int64_t value) { return value == static_cast<std::int32_t>(value); }

class Relocator {
public:
    Relocator(const Object& object, const Layout& layout, std::byte* memory)
        : object_(object), layout_(layout), memory_(memory) {}

    void apply(const Elf64_Shdr& table) {
        const Elf64_Shdr& target = object_.section(table.sh_info);
        const Elf64_Shdr& symbols = object_.section(table.sh_link);
        if (!layout_.is_here[table.sh_info]) return;
        for (std::uint64_t at = 0; at + sizeof(Elf64_Rela) <= table.sh_size;
             at += sizeof(Elf64_Rela)) {
            const auto r = object_.read<Elf64_Rela>(table.sh_offset + at);
            const std::int64_t symbol = address_of(symbols, ELF64_R_SYM(r.r_info));
            if (r.r_offset > target.sh_size || target.sh_size - r.r_offset < 4) {
                refuse("a relocation outside its section");
            }
            const std::size_t place = layout_.begin[table.sh_info] + r.r_offset;
            // Where it is and what it names are less than 2^31: sums of three such numbers are
            // exact.
            if (!fits(r.r_addend)) refuse("a distance that does not fit");
            std::uint32_t word = 0;
            std::memcpy(&word, memory_ + place, sizeof(word));
            word = patched(ELF64_R_TYPE(r.r_info), word, symbol + r.r_addend, std::int64_t(place));
            std::memcpy(memory_ + place, &word, sizeof(word));
        }
    }

private:
#if defined(__aarch64__)
    /// The instruction at `place` with the address `target`: its page for ADRP, and what is behind
    /// the page's begin for ADD and for loads and stores, which count in elements.
    static std::uint32_t patched(std::uint64_t type, std::uint32_t instruction, std::int64_t target,
                                 std::int64_t place) {
        constexpr std::int64_t kAddressPage = 4096;
        const auto low = [&](int element_log2) {
            const std::uint32_t offset = std::uint32_t(target) & (kAddressPage - 1);
            constexpr std::uint32_t kField = 0xfffu << 10;
            return (instruction & ~kField) | (offset >> element_log2) << 10;
        };
        switch (type) {
            case R_AARCH64_ADR_PREL_PG_HI21: {
                const std::int64_t pages = (target >> 12) - (place >> 12);
                constexpr std::uint32_t kField = 3u << 29 | 0x7ffffu << 5;
                return (instruction & ~kField) | (std::uint32_t(pages) & 3u) << 29 |
                       (std::uint32_t(pages >> 2) & 0x7ffffu) << 5;
            }
            case R_AARCH64_ADD_ABS_LO12_NC:
            case R_AARCH64_LDST8_ABS_LO12_NC:
                return low(0);
            case R_AARCH64_LDST16_ABS_LO12_NC:
                return low(1);
            case R_AARCH64_LDST32_ABS_LO12_NC:
                return low(2);
            case R_AARCH64_LDST64_ABS_LO12_NC:
                return low(3);
            case R_AARCH64_LDST128_ABS_LO12_NC:
                return low(4);
            default:
                refuse("a relocation of kind " + std::to_string(type));
        }
    }
#else
    /// The distance from `place` to `target`.
    static std::uint32_t patched(std::uint64_t type, std::uint32_t /*before*/, std::int64_t target,
                                 std::int64_t place) {
        if (type != R_X86_64_PC32 && type != R_X86_64_PLT32) {
            refuse("a relocation of kind " + std::to_string(type));
        }
        if (!fits(target - place)) refuse("a distance that does not fit");
        return static_cast<std::uint32_t>(target - place);
    }
#endif

    std::int64_t address_of(const Elf64_Shdr& symbols, std::uint64_t index) const {
        if (index >= symbols.sh_size / sizeof(Elf64_Sym)) refuse("a symbol that is not there");
        const auto s = object_.read<Elf64_Sym>(symbols.sh_offset + index * sizeof(Elf64_Sym));
        if (s.st_shndx == SHN_UNDEF || s.st_shndx >= layout_.begin.size() ||
            !layout_.is_here[s.st_shndx]) {
            refuse("an undefined symbol '" +
                   object_.text(object_.section(symbols.sh_link), s.st_name) + "'");
        }
        if (s.st_value > object_.section(s.st_shndx).sh_size)
            refuse("a symbol outside its section");
        return std::int64_t(layout_.begin[s.st_shndx] + s.st_value);
    }

    const Object& object_;
    const Layout& layout_;
    std::byte* memory_;
};

}  // namespace

std::shared_ptr<const MachineCode> MachineCode::load(std::span<const std::byte> bytes) {
    const Object object(bytes);
    const auto header = object.read<Elf64_Ehdr>(0);
    const Elf64_Shdr& names = object.section(header.e_shstrndx);
    const Layout layout = lay_out(object, names);
    if (layout.size == 0) refuse("nothing to run");

    std::shared_ptr<MachineCode> code(new MachineCode);
    code->size_ = (layout.size + kPage - 1) & ~(kPage - 1);
    void* memory =
        ::mmap(nullptr, code->size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        raise(OutOfMemory("[machine_code] expected room for " + std::to_string(code->size_) +
                              " bytes of code, got none from the system",
                          code->size_));
    }
    code->memory_ = static_cast<std::byte*>(memory);
    for (std::size_t i = 0; i < object.sections().size(); ++i) {
        const Elf64_Shdr& s = object.sections()[i];
        if (!layout.is_here[i] || s.sh_type == SHT_NOBITS) continue;
        const auto from = object.range(s.sh_offset, s.sh_size);
        std::memcpy(code->memory_ + layout.begin[i], from.data(), from.size());
    }
    for (const Elf64_Shdr& s : object.sections()) {
        if (s.sh_type == SHT_RELA) Relocator(object, layout, code->memory_).apply(s);
        if (s.sh_type != SHT_SYMTAB) continue;
        for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= s.sh_size; at += sizeof(Elf64_Sym)) {
            const auto symbol = object.read<Elf64_Sym>(s.sh_offset + at);
            if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
            if (symbol.st_shndx >= layout.begin.size() || !layout.is_here[symbol.st_shndx] ||
                symbol.st_value >= object.section(symbol.st_shndx).sh_size) {
                continue;
            }
            code->functions_[object.text(object.section(s.sh_link), symbol.st_name)] =
                layout.begin[symbol.st_shndx] + symbol.st_value;
        }
    }
    // Some processors read instructions past what was just written.
    auto* const begin = reinterpret_cast<char*>(code->memory_);
    __builtin___clear_cache(begin, begin + code->size_);
    if (::mprotect(memory, code->size_, PROT_READ | PROT_EXEC) != 0) {
        raise(DeviceError("[machine_code] mprotect: the system does not let code run"));
    }
    return code;
}

MachineCode::~MachineCode() {
    if (memory_) ::munmap(memory_, size_);
}

const void* MachineCode::find(const std::string& name) const {
    const auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : memory_ + found->second;
}

}  // namespace quern
