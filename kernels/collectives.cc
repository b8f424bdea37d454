// Opens and checks modules that have collectives.
#include "kernels/collectives.h"

#include "kernels/module_file.h"

namespace nvllm {

const CollectivesTable& open_collectives(const std::string& path) {
    const auto& table =
        module_table<CollectivesTable>(path, kCollectivesEntry, kCollectivesVersion);
    if (table.look == nullptr) refuse_module(path, "the module lacks look");
    return table;
}

}  // namespace nvllm
