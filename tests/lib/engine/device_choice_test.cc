// Tests of what --device means where there is no module, and of names that nobody has.
#include "lib/engine/device_choice.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/error_of.h"

using namespace nvllm;

TEST_CASE("the CPU needs no module") {
    CHECK(choose_device("cpu").is_cpu());
    CHECK(choose_device("cpu").name == "cpu");
    CHECK(choose_device("cpu").choice.module_path.empty());
    CHECK(open_device(choose_device("cpu").choice).is_cpu());
}

TEST_CASE("names that nobody has are usage errors, which name those there are") {
    for (const char* name :
         {"tpu", "tpu:0", "cpu:0", "cuda:", "cuda:-1", "cuda:one", ":0", "", "../cuda"}) {
        INFO(std::string(name));
        const std::string said = test::error_of(ErrorKind::usage, [&] { choose_device(name); });
        CHECK(said.find("auto, cpu, cuda") != std::string::npos);
    }
}

TEST_CASE("a module that is not installed is unavailable when it is asked for by name") {
    const std::string said =
        test::error_of(ErrorKind::unavailable, [] { choose_device("cuda:99"); });
    CHECK(said.find("--device cuda:99") != std::string::npos);
    CHECK(backend_info("no_such_module").path.empty());
}
