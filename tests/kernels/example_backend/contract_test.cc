// Tests of modules: how they are found, opened and refused, and what their devices do.
#include <cstdlib>
#include <filesystem>

#include "device_machine.h"
#include "kernels/collectives.h"
#include "kernels/ops/elementwise.h"

using namespace nvllm;

namespace {

const std::string kExample = std::string(NVLLM_TEST_MODULES) + "/libnanovllm_example.so";

// What `action` throws, in words.
template <typename Action>
std::string complaint(Action&& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing";
}

// The example, broken in one way.
std::string complaint_when(const char* broken) {
    ::setenv("NVLLM_EXAMPLE_BACKEND", broken, 1);
    const std::string said = complaint([] { open_device({kExample, 0}); });
    ::unsetenv("NVLLM_EXAMPLE_BACKEND");
    return said;
}

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a module that breaks the contract is refused by what it breaks") {
    CHECK(says(complaint_when("version"), "version " + std::to_string(kBackendVersion + 1)));
    CHECK(says(complaint_when("version"), "install the module that came with this program"));
    CHECK(says(complaint_when("name"), "no name"));
    CHECK(says(complaint_when("op"), "lacks rope"));
    CHECK(says(complaint_when("devices"), "told to have no devices"));
    CHECK(says(complaint_when("device"), "of no use"));
    CHECK(complaint_when("") == "nothing");
    CHECK(says(complaint([] { open_device({kExample, 2}); }), "example:2"));
}

TEST_CASE("what is no module is refused by what it is") {
    CHECK(says(complaint([] { open_backend("/no/such/module.so"); }), "/no/such/module.so"));
    const std::string library = "libm.so.6";
    CHECK(says(complaint([&] { open_backend(library); }), "exports no nvllm_backend"));
}

TEST_CASE(
    "collectives are opened where a module has them, and refused by what is wrong elsewhere") {
    const CollectivesTable& mpi = open_collectives(NVLLM_MPI_MODULE);
    CHECK(std::string(mpi.name) == "mpi");
    const CollectivesLibrary found = mpi.look();
    CHECK(found.name == "MPI");
    CHECK(!found.file.empty());
    CHECK(found.version.empty() != found.fault.empty());  // whichever this machine has
    CHECK(says(complaint([] { open_collectives(kExample); }), "exports no nvllm_collectives"));
    CHECK(says(complaint([] { open_backend(NVLLM_MPI_MODULE); }), "exports no nvllm_backend"));
}

TEST_CASE("modules are found where the environment says, and nowhere by a path") {
    ::setenv("NVLLM_BACKEND_PATH", ("/no/such/folder:" + std::string(NVLLM_TEST_MODULES)).c_str(),
             1);
    const auto found = find_backend("example");
    REQUIRE(found.has_value());
    CHECK(found->was_pointed_at);
    CHECK(std::filesystem::equivalent(found->path, kExample));
    CHECK(!find_backend("no_such_module").has_value());
    CHECK(!find_backend("../test_modules/example").has_value());
    ::unsetenv("NVLLM_BACKEND_PATH");
}

TEST_CASE("memory of a device is counted, copied both ways and refused when there is no more") {
    for (const auto& file : std::filesystem::directory_iterator(NVLLM_TEST_MODULES)) {
        const BackendTable& backend = open_backend(file.path());
        INFO(std::string(backend.name));
        const uint64_t before = backend.memory(0).in_use_bytes;
        {
            testing::DeviceMachine machine(backend);
            const std::vector<float> values = testing::Random(1).values(1000);
            const TensorView there = machine.put(DType::f32, values, {1000});
            CHECK(machine.get(there) == values);
            const DeviceMemoryStats stats = backend.memory(0);
            CHECK(stats.in_use_bytes >= before + 4000);
            CHECK(stats.peak_bytes >= stats.in_use_bytes);
            CHECK(stats.free_bytes + stats.in_use_bytes <= stats.total_bytes);
            machine.device().clear(machine.context().stream, there.data, 2000);
            CHECK(machine.get(there)[499] == 0.0f);
            CHECK(machine.get(there)[500] == values[500]);
            CHECK(
                says(complaint([&] { machine.device().allocate(stats.total_bytes + 1); }), "no "));
        }
        CHECK(backend.memory(0).in_use_bytes == before);
        backend.trim(0);
    }
}

TEST_CASE("events are in the order of their stream") {
    for (const auto& file : std::filesystem::directory_iterator(NVLLM_TEST_MODULES)) {
        const BackendTable& backend = open_backend(file.path());
        testing::DeviceMachine machine(backend);
        const DeviceEvent begin = backend.make_event(0, true);
        const DeviceEvent end = backend.make_event(0, true);
        backend.record(0, begin, machine.context().stream);
        backend.record(0, end, machine.context().stream);
        backend.await(0, end);
        CHECK(backend.is_done(0, begin));
        CHECK(backend.elapsed_ms(0, begin, end) >= 0.0);
        backend.end_event(0, begin);
        backend.end_event(0, end);
    }
}

#ifdef NVLLM_TEST_EMULATED
TEST_CASE("a graph does what was put into its stream, as often as it is launched") {
    const BackendTable& backend =
        open_backend(std::string(NVLLM_TEST_MODULES) + "/libnanovllm_cuda_emulated.so");
    testing::DeviceMachine machine(backend);
    const TensorView x = machine.put(DType::f32, {1, 2, 3, 4}, {1, 4});
    const TensorView y = machine.put(DType::f32, {10, 20, 30, 40}, {1, 4});
    void* const stream = machine.context().stream;
    backend.begin_capture(0, stream);
    ops::add(machine.context(), x, y);
    const DeviceGraph graph = backend.end_capture(0, stream);
    CHECK(machine.get(y)[3] == 40.0f);
    backend.launch(0, graph, stream);
    backend.launch(0, graph, stream);
    CHECK(machine.get(y)[3] == 48.0f);
    backend.end_graph(0, graph);
}
#endif
