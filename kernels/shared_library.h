// Shared libraries that are opened at run time, by whichever of their names is there.
#pragma once

#include <initializer_list>
#include <string>

namespace nvllm {

// Stays open until the process ends: such libraries leave behind what they took at their start.
struct SharedLibrary {
    void* handle = nullptr;  // null: none of the files could be opened
    std::string file;        // that was opened; else the first that was tried
    std::string fault;       // why the first could not be opened; empty: one was

    // The function of this name, or null.
    template <typename Function>
    Function* find(const char* name) const {
        return reinterpret_cast<Function*>(find_symbol(name));
    }

  private:
    void* find_symbol(const char* name) const;
};

// Tries the files in order.
SharedLibrary open_first_library(std::initializer_list<const char*> files);

}  // namespace nvllm
