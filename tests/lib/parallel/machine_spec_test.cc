// Machines by name and from files.
#include "lib/parallel/machine_spec.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "tests/error_of.h"
#include "tests/lib/checkpoint/temporary_folder.h"

using namespace nvllm;

TEST_CASE("a machine comes back from a file as it was written") {
    const test::TemporaryFolder folder;
    const MachineSpec machine{"ours", 11e9, 0.2e12, 4 << 20, 2, 4, {3e9, 7e-6}, {1e9, 50e-6}};
    const std::string file = folder.write("ours.json", write_json(machine_json(machine)));
    const MachineSpec read = machine_named(file);
    CHECK(read.name == "ours");
    CHECK(read.read_bytes_per_s == doctest::Approx(machine.read_bytes_per_s));
    CHECK(read.operations_per_s == doctest::Approx(machine.operations_per_s));
    CHECK(read.memory_bytes == machine.memory_bytes);
    CHECK(read.devices_per_host == 2);
    CHECK(read.activation_bytes == 4);
    CHECK(read.within.bytes_per_s == doctest::Approx(3e9));
    CHECK(read.between.latency_s == doctest::Approx(50e-6));
}

TEST_CASE("known machines have names, and files that are none are refused") {
    CHECK(machine_named("h100").devices_per_host == 8);
    CHECK(test::error_of(ErrorKind::usage, [] {
              machine_named("h101");
          }).find("known names are a100-80gb, h100") != std::string::npos);
    const test::TemporaryFolder folder;
    for (const char* text : {"{}", "[]", R"({"schema": "nanovllm.machine/1"})",
                             R"({"schema": "nanovllm.machine/1", "read_gb_per_s": -1})"}) {
        const std::string file = folder.write("bad.json", text);
        test::error_of(ErrorKind::bad_data, [&] { machine_named(file); });
    }
}
