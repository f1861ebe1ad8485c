"""What users add: extensions, which see what a session does, add to it and change it, and tools of MCP servers.

Extensions import from two modules: ``indus_nb.extend.api`` (the API, contexts and what is registered) and
``indus_nb.extend.events`` (events and answers). ``host`` runs them for one session, ``dispatch`` calls their handlers;
``loader`` finds them; ``definitions`` holds those of a program or notebook. ``approval`` and ``built_in`` come with the
package.
"""
