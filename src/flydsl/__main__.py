"""`python -m flydsl` is `fly`."""

from flydsl.tools.fly import main

raise SystemExit(main())
