# How every target of the project is compiled. What concerns the machine (ccache, mold, where
# programs land) is set for a top-level build only: a project that includes Quern decides itself.

if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
    set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
    set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

    find_program(QUERN_CCACHE ccache)
    if(QUERN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
        # The sloppiness is what ccache asks for where headers are precompiled; the folder, so that
        # files that CMake writes are the same in each.
        set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_BINARY_DIR}
            CCACHE_SLOPPINESS=pch_defines,time_macros ${QUERN_CCACHE})
    endif()
    find_program(QUERN_MOLD mold)
    if(QUERN_MOLD)
        add_link_options(-fuse-ld=mold)
    endif()
endif()

# Where includes are found. Without the dot, ccache takes a folder that has the build folder in it for
# one of the build folder's, and builds of other depths find nothing of each other.
set(QUERN_INCLUDE ${PROJECT_SOURCE_DIR}/.)

if(QUERN_SANITIZE)
    add_compile_options(-fsanitize=${QUERN_SANITIZE} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${QUERN_SANITIZE})
    if(QUERN_SANITIZE MATCHES "undefined")
        add_compile_options(-fno-sanitize-recover=all)
    endif()
endif()
# The code of tests and of the command runs once: it would be optimised for longer than it runs.
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    set(QUERN_BRIEF_OPTIONS -O0)
endif()
if(QUERN_FUZZ)
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "QUERN_FUZZ needs Clang, got ${CMAKE_CXX_COMPILER_ID}; use the preset 'asan'")
    endif()
    # Of what is fuzzed, and of nothing else: it makes code larger and slower. As -fsanitize=fuzzer-no-link
    # has it, whose precompiled headers others could not use.
    set(QUERN_COVERAGE -fsanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table)
endif()

# Sets language, warnings and include folder of a target of this project.
function(quern_compile_options target)
    target_compile_features(${target} PRIVATE cxx_std_20)
    set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
    target_include_directories(${target} PRIVATE ${QUERN_INCLUDE})
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wundef)
    if(QUERN_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
        # GCC 12 warns about std::string's operator+ in its own headers (GCC bug 105651).
        target_compile_options(${target} PRIVATE -Wno-restrict)
    endif()
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 15)
        # std::stable_sort of libstdc++ 12 calls a function that libstdc++ 12 deprecates. GCC still
        # says where our own code does such a thing.
        target_compile_options(${target} PRIVATE -Wno-deprecated-declarations)
    endif()
endfunction()

# Precompiles the headers of other libraries that most sources include. FROM is a target compiled with
# the same options, whose precompiled headers are taken, or the target itself, with more headers.
function(quern_precompile target from)
    if(NOT QUERN_PRECOMPILE)
        return()
    endif()
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        # Else ccache would find no two alike.
        target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    else()
        # Of std::string, where its code is not known to come from a system's header.
        target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
    endif()
    if(NOT target STREQUAL from)
        target_precompile_headers(${target} REUSE_FROM ${from})
        return()
    endif()
    target_precompile_headers(${target} PRIVATE ${ARGN}
        <algorithm> <cmath> <cstdint> <functional> <limits> <map> <memory> <optional> <set> <span>
        <string> <string_view> <unordered_map> <utility> <vector>)
endfunction()

# A plug-in exports nothing of the core, and keeps of it what it calls.
function(quern_link_plugin target)
    target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
    if(NOT QUERN_SANITIZE)
        target_link_options(${target} PRIVATE -Wl,--no-undefined -Wl,--gc-sections)
    endif()
endfunction()

# Adds one program from one source file that may use the whole library.
function(quern_add_program target source)
    add_executable(${target} ${source})
    quern_compile_options(${target})
    target_link_libraries(${target} PRIVATE quern::quern ${ARGN})
endfunction()
