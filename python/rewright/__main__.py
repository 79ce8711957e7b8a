import sys

from rewright.program import main

sys.exit(main())
