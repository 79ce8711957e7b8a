// Positions of pixels on an axis of an image, as AffineGrid has them.
#pragma once

#include "expressions/element.h"
#include "expressions/index.h"

namespace rewright::operators {

// The position of element i of n along an axis. With align_corners -1 and 1 are the centres of the first and last pixel, else
// their outer edges.
Element affine_grid_position(bool align_corners, const Index& i, const Index& n);

}  // namespace rewright::operators
