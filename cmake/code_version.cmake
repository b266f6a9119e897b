# Writes OUTPUT, the definition of code_version(): a digest of SOURCES, and the version LLVM.
set(digests)
foreach(source IN LISTS SOURCES)
    file(SHA256 ${source} digest)
    string(APPEND digests "\n${source} ${digest}")
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${OUTPUT} "#include \"quern/runtime/cpu_plugin.h\"

namespace quern::cpu {

const char* code_version() { return \"${digest}-llvm-${LLVM}\"; }

}  // namespace quern::cpu
")
