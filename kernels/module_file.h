// Modules as files: shared libraries that hand over a table (backend.h, collectives.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace nvllm {

// Throws unavailable: "PATH: WHY".
[[noreturn]] void refuse_module(const std::string& path, const std::string& why);

// The function of this name in the module, which stays open until the process ends. Throws
// unavailable.
void* module_entry(const std::string& path, const char* entry);

// What tables begin with, of a module and of this program.
struct TableVersion {
    uint32_t version = 0;
    uint32_t table_bytes = 0;

    bool operator==(const TableVersion&) const = default;
};
// Throws unavailable unless they are equal.
void check_table_version(const std::string& path, const TableVersion& of_module,
                         const TableVersion& of_program);

// The table that the module hands over through `entry`. Throws unavailable when the file is no such
// module, or one of another version.
template <typename Table>
const Table& module_table(const std::string& path, const char* entry, uint32_t version) {
    using Entry = const Table* (*)();
    const Table* table = reinterpret_cast<Entry>(module_entry(path, entry))();
    if (table == nullptr) refuse_module(path, "the module gives no table");
    check_table_version(path, {table->version, table->table_bytes}, {version, sizeof(Table)});
    if (table->name == nullptr || table->name[0] == '\0') {
        refuse_module(path, "the module has no name");
    }
    return *table;
}

}  // namespace nvllm
