// Tile registers (AMX): whether products of bytes may use them.
#pragma once

namespace rewright::cpu {

// Has the processor tile registers, with products of bytes and VNNI, and does the operating system save them for this process,
// which is asked once? Not if the environment variable REWRIGHT_TILE_REGISTERS is 0.
bool has_tile_registers();

}  // namespace rewright::cpu
