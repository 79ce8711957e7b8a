#include "generator/partial/partial.h"
