// dlopen, for modules.
#include "kernels/module_file.h"

#include <dlfcn.h>

#include "kernels/error.h"

namespace nvllm {

void refuse_module(const std::string& path, const std::string& why) {
    throw Error(ErrorKind::unavailable, path + ": " + why);
}

void* module_entry(const std::string& path, const char* entry) {
    // Never closed: what drivers start in a process does not end with a library.
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
        const char* why = ::dlerror();
        refuse_module(path, why != nullptr ? why : "it cannot be opened");
    }
    void* function = ::dlsym(library, entry);
    if (function == nullptr) {
        refuse_module(path, std::string("no module: it exports no ") + entry);
    }
    return function;
}

void check_table_version(const std::string& path, const TableVersion& of_module,
                         const TableVersion& of_program) {
    if (of_module == of_program) return;
    refuse_module(path, "a module for version " + std::to_string(of_module.version) + " (" +
                            std::to_string(of_module.table_bytes) +
                            " bytes) of the contract, this is " +
                            std::to_string(of_program.version) + " (" +
                            std::to_string(of_program.table_bytes) +
                            " bytes): install the module that came with this program");
}

}  // namespace nvllm
