"""Extensions: users' functions that see what a session does, add to it and change it.

Extensions import from two modules: ``indus_nb.extend.extensions.api`` (the API, contexts and what is registered) and
``indus_nb.extend.extensions.events`` (events and answers). ``host`` runs them for one session; ``loader`` finds them;
``definitions`` holds those of a program or notebook. The other modules are extensions that are built in.
"""
