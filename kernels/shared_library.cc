// dlopen.
#include "kernels/shared_library.h"

#include <dlfcn.h>

namespace nvllm {

void* SharedLibrary::find_symbol(const char* name) const {
    return handle != nullptr ? ::dlsym(handle, name) : nullptr;
}

SharedLibrary open_first_library(std::initializer_list<const char*> files) {
    SharedLibrary library;
    for (const char* file : files) {
        library.handle = ::dlopen(file, RTLD_LAZY | RTLD_LOCAL);
        if (library.handle != nullptr) {
            library.file = file;
            library.fault.clear();
            return library;
        }
        const char* const why = ::dlerror();
        if (!library.fault.empty()) continue;
        library.file = file;
        library.fault = why != nullptr ? why : "it cannot be opened";
    }
    return library;
}

}  // namespace nvllm
