// Where test data that is kept beside the project lies, when it is there.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

namespace nvllm::test {

// The folder `name` of the shared test data: below NVLLM_SHARED_DATA, else ../shared/data beside
// the checkout. Empty, after saying so on stdout, when it is not there; the test then has nothing
// to compare with and returns.
inline std::filesystem::path shared_data(const std::string& name) {
    const char* root = std::getenv("NVLLM_SHARED_DATA");
    const std::filesystem::path base =
        root != nullptr ? std::filesystem::path(root)
                        : std::filesystem::path(NVLLM_SOURCE_DIR) / ".." / "shared" / "data";
    if (std::filesystem::exists(base / name)) return base / name;
    std::cout << "[not run] needs shared test data '" << name << "', which is not at "
              << base.string() << "\n";
    return {};
}

// A file or folder of the project itself.
inline std::filesystem::path source_path(const std::string& name) {
    return std::filesystem::path(NVLLM_SOURCE_DIR) / name;
}

}  // namespace nvllm::test
