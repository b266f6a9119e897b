#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace quern {

/// Machine code of an ELF object, loaded without a linker: the sections that a program needs in
/// memory lie one behind the other, relocated among themselves, not writable. Immutable;
/// thread-safe.
class MachineCode {
public:
    /// Throws DeviceError that says which part is wrong: not an object for this processor, sizes
    /// that leave the file, an undefined symbol, a kind of relocation that position-independent
    /// code does not have.
    static std::shared_ptr<const MachineCode> load(std::span<const std::byte> object);

    ~MachineCode();
    MachineCode(const MachineCode&) = delete;
    MachineCode& operator=(const MachineCode&) = delete;

    /// The address of a function, or null.
    const void* find(const std::string& name) const;

private:
    MachineCode() = default;

    std::byte* memory_ = nullptr;
    std::size_t size_ = 0;
    std::map<std::string, std::size_t> functions_;
};

}  // namespace quern
