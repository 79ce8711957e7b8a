// Machine files: JSON of this form, where keys that are not known here are ignored. `machine.schema.json` describes it.
//
//   {"devices": {"count": 8, "per_node": 4, "operations_per_second": 15e12, "bytes_per_second": 900e9, "memory": 16e9},
//    "links": {"node":    {"latency": 5e-6,  "bytes_per_second": 25e9,   "shape": "switch"},
//              "cluster": {"latency": 15e-6, "bytes_per_second": 12.5e9, "shape": "fat-tree:4"}}}
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "plans/machines/machine.h"

namespace rewright::plans {

// Reads a machine, and the device profile that it names, relative to the machine's folder. Throws Error(kBadInput): one line
// that says what is wrong and where it stands.
Machine read_machine(const std::filesystem::path& file);
// `name` is the file's, for messages. The description is read, and its numbers and networks are not yet looked at (Machine
// does).
MachineDescription parse_machine(std::string_view text, const std::string& name);
std::string write_machine(const MachineDescription& description);

// The JSON schema, as it follows from what the reader knows.
std::string machine_schema();

// Machines of equal devices with these networks; see network.h for shapes.
//
//   Machine(make_cluster(16, 8, {125e12, 900e9}, 32e9, {5e-6, 150e9, "switch"}, {10e-6, 25e9, "torus:4x4"}))
MachineDescription make_node(std::size_t devices, const DeviceRates& rates, double memory, NetworkDescription network);
MachineDescription make_cluster(std::size_t nodes, std::size_t per_node, const DeviceRates& rates, double memory,
                                NetworkDescription node, NetworkDescription cluster);

}  // namespace rewright::plans
