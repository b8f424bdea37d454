// Bucket edges of histograms: vLLM's, so that values can be compared, and our own, which are
// vLLM's and finer ones below them.
#pragma once

#include <algorithm>
#include <vector>

namespace nvllm::server {

inline const std::vector<double> kVllmFirstTokenEdges = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
    1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
inline const std::vector<double> kVllmInterTokenEdges = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                                         0.3,  0.4,   0.5,  0.75,  1.0, 2.5,  5.0,
                                                         7.5,  10.0,  20.0, 40.0,  80.0};
inline const std::vector<double> kVllmRequestEdges = {
    0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
    30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
inline const std::vector<double> kVllmPrefillTokenEdges = {0.001, 0.002, 0.005, 0.01, 0.02,
                                                           0.05,  0.1,   0.2,   0.5,  1.0};
inline const std::vector<double> kVllmStepTokenEdges = {1,   8,    16,   32,   64,   128,  256,
                                                        512, 1024, 2048, 4096, 8192, 16384};
inline const std::vector<double> kVllmNumSequencesBuckets = {1, 2, 5, 10, 20};

// Both, in their order.
inline std::vector<double> with_finer(const std::vector<double>& edges,
                                      std::initializer_list<double> finer) {
    std::vector<double> all;
    std::ranges::set_union(edges, finer, std::back_inserter(all));
    return all;
}

inline const std::vector<double> kInterTokenEdges =
    with_finer(kVllmInterTokenEdges, {0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.0075});
inline const std::vector<double> kRequestEdges =
    with_finer(kVllmRequestEdges, {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2});
inline const std::vector<double> kPrefillTokenEdges =
    with_finer(kVllmPrefillTokenEdges, {0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005});
inline const std::vector<double> kStepEdges = {0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                               0.025,   0.05,   0.1,   0.25,   0.5,   1.0,
                                               2.5,     5.0,    10.0,  30.0,   60.0};
inline const std::vector<double> kAbortEdges = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                0.1,   0.25,   0.5,   1.0,  2.5,   5.0};
inline const std::vector<double> kLoopLagEdges = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5};
inline const std::vector<double> kHttpEdges = {0.001, 0.0025, 0.005, 0.01,  0.025, 0.05,
                                               0.1,   0.25,   0.5,   1.0,   2.5,   5.0,
                                               10.0,  30.0,   60.0,  120.0, 300.0, 600.0};
inline const std::vector<double> kByteEdges = {100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
inline const std::vector<double> kBatchEdges = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

}  // namespace nvllm::server
