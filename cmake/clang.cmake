# Picks a Clang: 19 as Debian 12 has it, else 14, else what is called clang++.
find_program(QUERN_CLANGXX NAMES clang++-19 clang++-14 clang++ REQUIRED)
set(CMAKE_CXX_COMPILER ${QUERN_CLANGXX})
