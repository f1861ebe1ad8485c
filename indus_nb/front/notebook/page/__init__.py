"""The browser's side: widget, comms, dialogs and panel."""
