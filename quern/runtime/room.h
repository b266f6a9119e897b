#pragma once

#include <cstddef>
#include <string_view>

namespace quern {

/// Room for work that ends the program where it gets no memory, as LLVM does. That the system has
/// so much, and as much as others who have asked for room and are still at work, is tried once;
/// what the pool of tensors keeps is given back first where it has not. Throws OutOfMemory.
class WorkRoom {
public:
    WorkRoom(std::string_view op, std::size_t bytes);
    ~WorkRoom();
    WorkRoom(const WorkRoom&) = delete;
    WorkRoom& operator=(const WorkRoom&) = delete;

private:
    std::size_t bytes_;
};

}  // namespace quern
